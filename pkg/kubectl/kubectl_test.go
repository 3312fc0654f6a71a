package kubectl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/golden"
)

// scenario is a file in testdata: the arguments, and how the cluster differs from objects.yaml.
type scenario struct {
	Args      string                      `json:"args"`
	Objects   []unstructured.Unstructured `json:"objects"`
	Remove    []string                    `json:"remove"` // kind and name
	Forbidden []string                    `json:"forbidden"`
	Unserved  []string                    `json:"unserved"`
	Denied    []string                    `json:"denied"` // verb and resource

	kubernetes bool // whether the objects have their names on Kubernetes
}

// The scenarios run with the flags in their files. The golden files contain exit code and output.
func TestOutputIsThatOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, file := range scenarioFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			var s scenario
			decode(t, file, &s)
			code, stdout, stderr := run(t, s.options(t), false, strings.Fields(s.Args)...)
			got := fmt.Sprintf("$ kubectl openstack-csi %s\n%s%sexit code %d\n", s.Args, stdout, stderr,
				code)
			for line := range strings.Lines(stdout) {
				assert.Check(t, utf8.RuneCountInString(line) <= width+1 || strings.Contains(s.Args, " -o") ||
					strings.Contains(line, "https://"),
					"longer than %d columns: %s", width, line)
			}
			assert.Check(t, s.Args != "status" || code != exitOK || strings.Count(got, "\n") <= 24, got)
			golden.Match(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
		})
	}
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*_*.yaml")
	assert.Assert(t, err == nil && len(files) >= 15, "found %d files, error %v", len(files), err)
	return files
}

// onOpenShift returns the driver with a name or a title on OpenShift.
func onOpenShift(name string) *driver { return (&cluster{}).findDriver(name) }

func decode(tb testing.TB, file string, into any) {
	tb.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(tb, err)
	assert.NilError(tb, yaml.UnmarshalStrict(text, into), file)
}

// kubeconfig returns the path of a kubeconfig of a cluster that does not exist.
func kubeconfig(t *testing.T) string {
	t.Helper()
	return file(t, []byte(guestKubeconfig("https://127.0.0.1:1")))
}

// options returns options whose client reads the objects of the scenario.
func (s *scenario) options(t *testing.T) *options {
	t.Helper()
	o := newOptions()
	o.clock = clocktesting.NewFakePassiveClock(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	connectTo(o, s.client(t))
	return o
}

func connectTo(o *options, c client.WithWatch) {
	o.connect = func(*rest.Config) (client.WithWatch, error) { return c, nil }
}

// getter reads an object.
type getter func(context.Context, client.WithWatch, client.ObjectKey, client.Object) error

func onGet(c client.WithWatch, get getter) client.WithWatch {
	return interceptor.NewClient(c, interceptor.Funcs{Get: func(ctx context.Context,
		c client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption,
	) error {
		return get(ctx, c, key, object)
	}})
}

// forbidden lets nobody read an object of a namespace.
func forbidden(namespace string) getter {
	return func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
	) error {
		if key.Namespace == namespace {
			return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("RBAC"))
		}
		return c.Get(ctx, key, object)
	}
}

func logsOf(text func(pod *corev1.Pod) (string, error)) func(*rest.Config) (logReader, error) {
	return func(*rest.Config) (logReader, error) {
		return func(_ context.Context, p *corev1.Pod, _ *corev1.PodLogOptions) ([]byte, error) {
			read, err := text(p)
			return []byte(read), err
		}, nil
	}
}

func (s *scenario) client(t *testing.T) client.WithWatch {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	var all []unstructured.Unstructured
	decode(t, "testdata/objects.yaml", &all)
	objects := map[string]runtime.Object{}
	for _, u := range append(all, s.Objects...) {
		if slices.Contains(s.Remove, u.GetKind()+" "+u.GetName()) ||
			s.kubernetes && u.GetKind() == "Infrastructure" {
			continue
		}
		if s.kubernetes {
			u = onKubernetes(t, u)
		}
		typed, err := decoded(types, u)
		assert.NilError(t, err, "%s %s", u.GetKind(), u.GetName())
		objects[u.GetKind()+"/"+u.GetNamespace()+"/"+u.GetName()] = typed
	}
	return newFake(types).
		WithRuntimeObjects(slices.Collect(maps.Values(objects))...).
		WithInterceptorFuncs(s.refusals(types)).Build()
}

// newFake returns the builder of a client with the fields by which the commands select objects.
// Nothing is applied, so it converts no types.
func newFake(types *runtime.Scheme) *fake.ClientBuilder {
	b := fake.NewClientBuilder().WithScheme(types).
		WithTypeConverters(managedfields.NewDeducedTypeConverter())
	return b.WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
		return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
	}).WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
		return []string{string(o.(*corev1.Pod).Status.Phase)}
	}).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
		return []string{o.(*corev1.Pod).Spec.NodeName}
	})
}

// decoded returns an object with its Go type.
func decoded(types *runtime.Scheme, u unstructured.Unstructured) (runtime.Object, error) {
	if u.GroupVersionKind().Group == flavour.Kubernetes.Object("").Group {
		return &u, nil // the commands read it without a type
	}
	object, err := types.New(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	convert := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation
	return object, convert(u.Object, object, true)
}

// refusals refuses requests for the forbidden kinds.
func (s *scenario) refusals(types *runtime.Scheme) interceptor.Funcs {
	kinds := &cluster{WithWatch: fake.NewClientBuilder().WithScheme(types).Build()}
	funcs := onRead(func(_ string, object runtime.Object) error {
		kind := kinds.kind(object)
		if slices.Contains(s.Unserved, kind) {
			return apierrors.NewGenericServerResponse(http.StatusNotFound, "get",
				schema.GroupResource{Resource: kind}, "", "", 0, true)
		}
		if slices.Contains(s.Forbidden, kind) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("RBAC"))
		}
		return nil
	})
	funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object,
		options ...client.CreateOption,
	) error {
		review, ok := object.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return c.Create(ctx, object, options...)
		}
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = !slices.Contains(s.Denied, asked.Verb+" "+asked.Resource)
		return nil
	}
	return funcs
}

// onRead calls check before each request with its verb.
func onRead(check func(verb string, object runtime.Object) error) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if err := check("get", object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption,
		) error {
			if err := check("list", list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}
}

// situation is what is wrong in a cluster, and what the first lines of a command should say.
type situation struct {
	scenario

	Name string `json:"name"`
	// Partial are objects that objects.yaml, or else the template of their kind, completes.
	Partial []map[string]any `json:"objects"`
	// Conditions are status, reason and message of conditions by driver and type.
	Conditions map[string]map[string][3]string `json:"conditions"`
	// First is how the output starts, without line breaks. It contains Has, and Never in no line.
	First string `json:"first"`
	Has   string `json:"has"`
	Never string `json:"never"`
	Code  int    `json:"code"`
	// Log is that of each container. Without it logs may not be read.
	Log string `json:"log"`
}

// situations reads testdata/situations.yaml.
func situations(t *testing.T) []situation {
	t.Helper()
	var table struct {
		Templates  []map[string]any `json:"templates"`
		Situations []situation      `json:"situations"`
	}
	decode(t, "testdata/situations.yaml", &table)
	var cluster []map[string]any
	decode(t, "testdata/objects.yaml", &cluster)
	for i, one := range table.Situations {
		s := &table.Situations[i].scenario
		for _, object := range one.Partial {
			base := lookUp(cluster, object)
			if base == nil {
				base = lookUp(table.Templates, map[string]any{"kind": object["kind"]})
			}
			s.Objects = append(s.Objects, completed(base, object))
		}
		for driver, conditions := range one.Conditions {
			object := map[string]any{
				"kind": "ClusterCSIDriver", "metadata": map[string]any{"name": driver},
			}
			var list []any
			for name, c := range conditions {
				list = append(list, map[string]any{
					"type": name, "status": c[0], "reason": c[1], "message": c[2],
					"lastTransitionTime": "2026-11-24T11:48:00Z",
				})
			}
			change := map[string]any{"status": map[string]any{"conditions": list}}
			s.Objects = append(s.Objects, completed(lookUp(cluster, object), change))
		}
	}
	return table.Situations
}

// lookUp returns the object with the kind, and the name if there is one; nil if there is none.
func lookUp(all []map[string]any, like map[string]any) map[string]any {
	wanted := unstructured.Unstructured{Object: like}
	for _, object := range all {
		u := unstructured.Unstructured{Object: object}
		if u.GetKind() == wanted.GetKind() &&
			(u.GetName() == wanted.GetName() || like["metadata"] == nil) {
			return object
		}
	}
	return nil
}

func completed(base, change map[string]any) unstructured.Unstructured {
	u := *(&unstructured.Unstructured{Object: merged(base, change).(map[string]any)}).DeepCopy()
	if u.GetKind() == "Event" && u.GetName() == "" {
		involved := u.Object["involvedObject"].(map[string]any)
		u.SetName(involved["uid"].(string) + "." + u.Object["reason"].(string))
	}
	if u.GetUID() == "" {
		_ = unstructured.SetNestedField(u.Object, u.GetName(), "metadata", "uid")
	}
	return u
}

// merged replaces what differs. Conditions are merged by type.
func merged(base, change any) any {
	to, isMap := change.(map[string]any)
	from, wasMap := base.(map[string]any)
	if !isMap || !wasMap {
		return change
	}
	all := maps.Clone(from)
	for key, value := range to {
		all[key] = merged(from[key], value)
		if earlier, ok := from[key].([]any); key == "conditions" && ok {
			all[key] = conditions(earlier, value.([]any))
		}
	}
	return all
}

func conditions(earlier, changed []any) []any {
	return append(slices.Clone(changed), slices.DeleteFunc(slices.Clone(earlier), func(e any) bool {
		return slices.ContainsFunc(changed, func(c any) bool {
			return c.(map[string]any)["type"] == e.(map[string]any)["type"]
		})
	})...)
}

// The first line says what stops the object, where, and what to do.
func TestFirstLineIsTheCause(t *testing.T) {
	t.Parallel()
	for _, one := range situations(t) {
		t.Run(strings.ReplaceAll(one.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			o := one.options(t)
			if one.Log != "" {
				o.readLogs = logsOf(func(*corev1.Pod) (string, error) { return one.Log, nil })
			}
			code, stdout, stderr := run(t, o, false, strings.Fields(one.Args)...)
			got := strings.Join(strings.Fields(stdout+stderr), " ")
			assert.Check(t, strings.HasPrefix(got, one.First) && code == one.Code &&
				strings.Contains(got, one.Has) && (one.Never == "" || !strings.Contains(got, one.Never)),
				"exit code %d, want %d and %q:\n%s%s", code, one.Code, one.First, stdout, stderr)
		})
	}
}

// Each situation with the names of Kubernetes.
func TestOutputNamesNothingThatOnlyOpenShiftHas(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`openshift-|OpenShift|operator\.yaml|\boc |ClusterCSIDriver|` +
		`(Manila|Cinder)Config\b|enable_topology|ignore-volume-az|` +
		`CredentialsRequest|[Cc]loud credential operator|cluster-storage-operator|Proxy/|HyperShift|` +
		`(^|[^.])manila\.csi\.openstack\.org`)
	for _, one := range situations(t) {
		t.Run(strings.ReplaceAll(one.Name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			one.kubernetes = true
			args := strings.NewReplacer("clustercsidriver/m", "maniladriver/nfs.m", "clustercsidriver/",
				"cinderdriver/", "testdata/operator.", "testdata/driver.").Replace(one.Args)
			_, stdout, stderr := run(t, one.options(t), false, strings.Fields(args)...)
			found := others.FindString(stdout + stderr)
			assert.Check(t, found == "", "%s:\n%s%s", found, stdout, stderr)
		})
	}
}

// onKubernetes returns an object with its names on Kubernetes.
func onKubernetes(t *testing.T, u unstructured.Unstructured) unstructured.Unstructured {
	t.Helper()
	text, err := u.MarshalJSON()
	assert.NilError(t, err)
	own := flavour.Kubernetes.Object("ManilaDriver")
	if u.GetName() == onOpenShift("cinder").name {
		own.Kind = "CinderDriver"
	}
	renamed := strings.NewReplacer(
		onOpenShift("manila").namespace, defaultNamespace, flavour.DefaultNamespace, defaultNamespace,
		"nfs.manila.csi", "nfs.manila.csi", "manila.csi.openstack.org/", "manila.csi.openstack.org/",
		"manila.csi", "nfs.manila.csi", "manila-csi-openstack", "nfs-manila-csi-openstack",
		"manila-cloud-credentials", defaultSecret, "openstack-cloud-credentials", defaultSecret,
		"operator.openshift.io/v1", own.GroupVersion().String(), "ClusterCSIDriver", own.Kind,
	).Replace(string(text))
	assert.NilError(t, u.UnmarshalJSON([]byte(renamed)))
	return u
}
