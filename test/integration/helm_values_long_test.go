//go:build integration && long && helm

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/kubectl"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/values"
)

// valuesOf are the numbers of values that are made from the schema, and of those with a mistake.
const (
	valuesOf = 1000
	mistakes = 2000
)

// beyondSchemas are sentences about conditions that a schema cannot express.
func beyondSchemas() *regexp.Regexp {
	return regexp.MustCompile(strings.Join([]string{
		// Conditions about several elements of a list.
		"duplicate entries for key", "give each further entry of a type a name of its own",
		"use each name once",
		// Reserved names depend on the driver, and the class of a type may have one.
		"use a name that does not start with", "use another name: ",
		// Two quantities have different units.
		"must be less than or equal to .* limit",
		// Namespaces of users.
		`namespaces ".*" not found`,
	}, "|"))
}

// TestHelmSchemaRefusesWhatTheAPIServerRefuses makes values from the schema of the chart, also with
// one mistake each. The API server accepts the objects that the chart makes from all values that
// the schema and the templates accept.
func TestHelmSchemaRefusesWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	k := startPlainKubernetes(t)
	for _, command := range []string{
		`kubectl create -f "$RELEASE/crds.yaml" -f "$RELEASE/csi-addons-crds.yaml"`,
		"kubectl create -f " + filepath.Join(shared.Kubernetes, "manifests/crds"),
		"kubectl wait crd --all --for=condition=Established --timeout=1m",
		"kubectl create namespace openstack-csi",
		"kubectl create namespace csi-addons-system",
	} {
		k.run(command)
	}
	schema, err := os.ReadFile(filepath.Join(repository,
		"assets/helm/generated/openstack-csi/values.schema.json"))
	k.must(err)
	maker, err := values.New(schema, 1)
	k.must(err)
	d := &dryRun{plainKubernetes: k, accepted: map[string]bool{}}
	refused := 0
	var work []func()
	for i := range valuesOf + mistakes {
		valid, err := maker.Valid()
		k.must(err)
		installable(valid)
		if i < valuesOf {
			work = append(work, func() { d.mustAccept(valid, false) })
			continue
		}
		wrong, err := maker.Mutated(valid)
		k.must(err)
		if maker.Refuses(wrong) != nil {
			refused++
			continue
		}
		work = append(work, func() { d.mustAccept(wrong, true) })
	}
	d.parallel(work)
	t.Logf("the schema refuses %d of %d mistakes; the API server saw %d objects", refused, mistakes,
		len(d.accepted))
	assert.Check(t, refused > mistakes/2, "the schema refuses only %d of %d", refused, mistakes)
}

// TestHelmNullRemovesAValue sets each value to null, also parts of the values and what the chart
// has no default for. The objects are those without it.
func TestHelmNullRemovesAValue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(repository, "assets/helm/values.yaml"))
	assert.NilError(t, err)
	var all map[string]any
	assert.NilError(t, yaml.Unmarshal(text, &all))
	paths := append(leaves(all, ""), "clusterID", "kubeletDir", "pods",
		"manila.replicas", "manila.env.DRIVER_IMAGE", "manila.spec.logLevel", "manila.spec.pods")
	paths = slices.AppendSeq(paths, maps.Keys(all))
	const both = "manila.enabled=true,cinder.enabled=true"
	for name, helm := range helms() {
		render := func(options string) map[string]*unstructured.Unstructured {
			return rendered(t, helm+" template "+chart+" --set="+both+options)
		}
		want := render("")
		for _, path := range paths {
			if slices.Contains([]string{"manila", "cinder", "images"}, path) { // the test needs a part
				continue
			}
			got := render("," + path + "=null," + both + ",images.registry=" + noRegistry)
			assert.Check(t, is.DeepEqual(want, got), "%s without %s", name, path)
		}
		without := rendered(t, helm+" template "+chart+" --set=cinder.enabled=true,manila=null")
		assert.Check(t, without["ManilaDriver /"+manilaDriver] == nil)
		output, err := guide.Output(t.Context(), helm+" template "+chart+" --set=images=null,"+both)
		assert.Check(t, err != nil && strings.Contains(output, "a clone names no registry"), output)
	}
}

// TestHelmAndCheckAcceptTheSameLogins renders values with each shape of a login, and checks them.
// Whoever follows the advice word for word, as those with a file or with Helm do, is done.
func TestHelmAndCheckAcceptTheSameLogins(t *testing.T) {
	t.Parallel()
	logins, err := values.Logins()
	assert.NilError(t, err)
	folder := t.TempDir()
	render := func(helm, options string, isValid bool) {
		output, err := guide.Output(t.Context(),
			helm+" template "+chart+" --set=manila.enabled=true "+options)
		assert.Check(t, isValid == (err == nil) && !strings.Contains(output, values.Secret), "%s: %s",
			options, output)
		assert.Check(t, isValid || strings.Contains(output, charts.AddLogin) ||
			strings.Contains(output, "name the one to use openstack"), output)
	}
	accepts := func(name, file string, text []byte, isValid bool) {
		assert.NilError(t, os.WriteFile(file, text, 0o600))
		for _, helm := range helms() {
			render(helm, "--values="+file, isValid)
		}
		var out bytes.Buffer
		code := kubectl.Main(t.Context(), []string{"check", "-f", file, "--kubeconfig=" + os.DevNull},
			kubectl.Streams{Out: &out, Err: &out})
		assert.Check(t, isValid == (code == 0) && !strings.Contains(out.String(), values.Secret),
			"check of %s: exit code %d, %s", name, code, &out)
	}
	for name, login := range logins {
		text, err := yaml.Marshal(map[string]any{"credentials": map[string]any{"clouds": login.Value}})
		assert.NilError(t, err)
		accepts(name, filepath.Join(folder, "values.yaml"), text, login.IsValid)
	}
	clouds, _ := logins["one entry as text"].Value.(string)
	accepts("the advice", filepath.Join(folder, "values.yaml"), []byte(
		"credentials:\n  clouds: |\n    "+strings.ReplaceAll(clouds, "\n", "\n    ")), true)
	file := filepath.Join(folder, "clouds.yaml")
	assert.NilError(t, os.WriteFile(file, []byte(clouds), 0o600))
	for _, helm := range helms() {
		render(helm, "--set-file=credentials.clouds="+file, true)
	}
}

// installable makes values meet the conditions that the templates check.
func installable(all map[string]any) {
	part := func(name string) map[string]any {
		if _, ok := all[name].(map[string]any); !ok {
			all[name] = map[string]any{}
		}
		return all[name].(map[string]any)
	}
	withoutRequests(all)
	part("manila")["enabled"], part("cinder")["enabled"] = true, true
	if registry := part("images")["registry"]; registry == nil || registry == "" {
		part("images")["registry"] = "registry.example.com"
	}
	if part("credentials")["clouds"] == nil {
		delete(part("credentials"), "cacert")
	}
}

// withoutRequests removes requests beside limits, at any depth.
func withoutRequests(value any) {
	switch value := value.(type) {
	case map[string]any:
		if value["limits"] != nil {
			delete(value, "requests")
		}
		for _, child := range value {
			withoutRequests(child)
		}
	case []any:
		for _, child := range value {
			withoutRequests(child)
		}
	}
}

// dryRun renders the chart, and asks the API server whether it would accept the objects.
type dryRun struct {
	*plainKubernetes

	lock     sync.Mutex
	accepted map[string]bool
}

// parallel does work in a few goroutines.
func (d *dryRun) parallel(work []func()) {
	next := make(chan func())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for one := range next {
				one()
			}
		})
	}
	for _, one := range work {
		next <- one
	}
	close(next)
	group.Wait()
}

// mustAccept fails the test unless the API server accepts the objects of the chart. The templates
// may refuse values that contain a mistake.
func (d *dryRun) mustAccept(all map[string]any, mistake bool) {
	text, err := json.Marshal(all)
	assert.Check(d.t, err)
	file, err := os.CreateTemp(d.t.TempDir(), "values")
	assert.Check(d.t, err)
	_, err = file.Write(text)
	assert.Check(d.t, err)
	output, err := guide.Output(d.ctx(), helms()["helm4"]+" template "+chart+" --values="+file.Name())
	if err != nil {
		assert.Check(d.t, mistake, "%s: %v", text, err)
		return
	}
	objects, err := decoded(output)
	assert.Check(d.t, err, "%s", text)
	for _, object := range slices.Concat(objects, operands(objects)) {
		if err := d.refuses(object); err != nil {
			d.t.Errorf("the schema accepts %s, the API server refuses %s %s: %v", text, object.GetKind(),
				object.GetName(), err)
		}
	}
}

// operands returns workloads with the options of pods in objects of drivers.
func operands(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var workloads []*unstructured.Unstructured
	for _, object := range objects {
		pods, _, _ := unstructured.NestedMap(object.Object, "spec", "pods")
		for _, one := range []struct{ name, kind string }{
			{"controller", "Deployment"}, {"node", "DaemonSet"},
		} {
			options, ok := pods[one.name].(map[string]any)
			if !ok {
				continue
			}
			labels, _ := options["labels"].(map[string]any)
			if labels == nil {
				labels = map[string]any{}
			}
			labels["test"] = "pods"
			metadata := map[string]any{"labels": labels, "annotations": options["annotations"]}
			spec := map[string]any{"selector": map[string]any{"matchLabels": map[string]any{"test": "pods"}}}
			if options["replicas"] != nil {
				spec["replicas"] = options["replicas"]
			}
			containers := []any{map[string]any{"name": "test-driver", "image": "x"}}
			resources, _ := options["resources"].(map[string]any)
			for name, resources := range resources {
				containers = append(containers, map[string]any{
					"name": name, "image": "x", "resources": resources,
				})
			}
			for _, name := range []string{"resources", "labels", "annotations", "replicas"} {
				delete(options, name)
			}
			options["containers"] = containers
			spec["template"] = map[string]any{"metadata": metadata, "spec": options}
			workload := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": one.kind, "spec": spec,
			}}
			workload.SetName("test")
			workload.SetNamespace("openstack-csi")
			workloads = append(workloads, workload)
		}
	}
	return workloads
}

// refuses returns why the API server refuses an object.
func (d *dryRun) refuses(object *unstructured.Unstructured) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	d.lock.Lock()
	seen := d.accepted[string(text)]
	d.accepted[string(text)] = true
	d.lock.Unlock()
	if seen {
		return nil
	}
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	_, err = d.cluster.dynamic.Resource(resource).Namespace(object.GetNamespace()).Patch(d.ctx(),
		object.GetName(), types.ApplyPatchType, text, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll}, FieldManager: "helm", FieldValidation: "Strict",
		})
	if err != nil && beyondSchemas().MatchString(err.Error()) {
		return nil
	}
	return err
}

// TestHelmLintFindsNothing lints the chart with its default values, and with the values of each
// command in the pages.
func TestHelmLintFindsNothing(t *testing.T) {
	t.Parallel()
	clouds := filepath.Join(t.TempDir(), "clouds.yaml")
	assert.NilError(t, os.WriteFile(clouds, []byte("clouds: {openstack: {auth: {}}}"), 0o600))
	for _, page := range []string{"docs/helm.md", "assets/helm/README.md"} {
		text, err := os.ReadFile(filepath.Join(repository, page))
		assert.NilError(t, err)
		joined := strings.ReplaceAll(string(text), "\\\n", " ")
		examples := regexp.MustCompile(`(?m)^ *helm .*$`).FindAllString(joined, -1)
		assert.Check(t, len(examples) > 0, page)
		for _, example := range append(examples, "") {
			options := strings.Join(regexp.MustCompile(`--(set|set-file|set-string)=\S+`).
				FindAllString(example, -1), " ")
			options = strings.NewReplacer(`"$CLOUDS"`, clouds, "clouds.yaml=clouds.yaml", clouds,
				"=clouds.yaml", "="+clouds).Replace(options)
			for name, helm := range helms() {
				output, err := guide.Output(t.Context(), helm+" lint --strict "+
					strings.Fields(chart)[0]+" "+options)
				assert.Check(t, err == nil && !regexp.MustCompile(`\[(INFO|WARNING|ERROR)\] [^F]`).
					MatchString(output), "%s with %s in %s: %v\n%s", name, options, page, err, output)
			}
		}
	}
}

// decoded returns the objects in the output of `helm template` or `kubectl kustomize`.
func decoded(output string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for text := range strings.SplitSeq(output, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, text)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
