package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// run executes a command, and returns the exit code, the output and the errors.
func run(t *testing.T, o *options, colored bool, args ...string) (int, string, string) {
	t.Helper()
	args = slices.Insert(slices.Clone(args), min(1, len(args)), "--kubeconfig="+kubeconfig(t))
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), o, args, Streams{Out: &stdout, Err: &stderr, Color: colored})
	return code, stdout.String(), stderr.String()
}

// complete is run for the completion of words in the namespace shop.
func complete(t *testing.T, o *options, words string) (int, string, string) {
	t.Helper()
	args := append([]string{"__complete", "--namespace=shop"}, strings.Split(words, " ")...)
	return run(t, o, false, args...)
}

func TestExitCodeSaysWhetherTheServerAnswers(t *testing.T) {
	t.Parallel()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(hangs.CloseClientConnections)
	for args, want := range map[string]int{
		"status":                           exitUnreachable,
		"why pvc/a":                        exitUnreachable,
		"status --timeout=100ms --server=": exitDeadline,
		"why pvc/a --timeout=0s":           exitUsage,
		"status --output=wide":             exitUsage,
		"status a b":                       exitUsage,
		"status --flag":                    exitUsage,
		"status -w --wait":                 exitUsage,
		"check --cacert=ca.crt":            exitUsage,
		"status --all-guests --wait":       exitUsage,
		"reboot":                           exitUsage,
		"why":                              exitUsage,
		"status --context=missing":         exitUsage,
		"status --management-n=hosed":      exitUsage,
		"version":                          exitOK,
		"":                                 exitOK,
	} {
		if strings.HasSuffix(args, "--server=") {
			args += hangs.URL
		}
		code, _, stderr := run(t, newOptions(), false, strings.Fields(args)...)
		assert.Check(t, is.Equal(code, want), "%q: %s", args, stderr)
	}
}

func TestErrorsNameTheFix(t *testing.T) {
	t.Parallel()
	const cinder = "cinder.csi.openstack.org"
	none := &scenario{Remove: []string{
		"ClusterCSIDriver " + cinder, "Deployment openstack-cinder-csi-driver-operator",
		"DaemonSet openstack-cinder-csi-driver-node", "PersistentVolume pvc-2",
	}}
	for args, want := range map[string]string{
		"stauts":                      "try status",
		"why pvc/missing -n shop":     "in namespace shop: choose another one with -n",
		"status cinder":               "ClusterCSIDriver " + cinder + " does not exist",
		"must-gather " + file(t, nil): "not a directory",
		"status --all-guests":         "use --all-guests with the kubeconfig of the management cluster",
		"status --management-namespace=hosed --management-kubeconfig=" + kubeconfig(t): "namespace " +
			"hosed of the management cluster contains no HostedControlPlane",
	} {
		code, stdout, stderr := run(t, none.options(t), false, strings.Fields(args)...)
		got := strings.Join(strings.Fields(stdout+stderr), " ")
		assert.Check(t, code != exitOK && strings.Contains(got, want), "%q: code %d: %s", args, code, got)
	}
}

// withoutOperator returns a cluster whose operator does not run.
func withoutOperator(t *testing.T) *scenario {
	t.Helper()
	s := &scenario{}
	decode(t, "testdata/status_operator_absent.yaml", s)
	return s
}

// repaired returns options of a cluster whose operator does not run until the hundredth request.
// It calls count with the number of each request.
func repaired(t *testing.T, count func(n int32)) *options {
	t.Helper()
	o := (&scenario{}).options(t)
	after, err := o.connect(nil)
	assert.NilError(t, err)
	before := withoutOperator(t).client(t)
	var requests atomic.Int32
	connectTo(o, onGet(after, func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
		object client.Object,
	) error {
		n := requests.Add(1)
		if count(n); n < 100 {
			return before.Get(ctx, key, object)
		}
		return c.Get(ctx, key, object)
	}))
	o.interval = time.Millisecond
	return o
}

func TestWaitEndsWhenDriversAreReady(t *testing.T) {
	t.Parallel()
	o := repaired(t, func(int32) {})
	code, stdout, stderr := run(t, o, false, "status", "manila", "--wait")
	const progress = "Manila: the operator does not run, so conditions may be out of date. Check " +
		"Deployment openshift-cluster-csi-drivers/manila-csi-driver-operator, which does not exist\n"
	assert.Check(t, code == exitOK && !strings.Contains(stdout, "!!"), "code %d:\n%s", code, stdout)
	assert.Check(t, is.DeepEqual(progress, stderr), "progress")
	o = withoutOperator(t).options(t)
	o.interval = time.Millisecond
	code, stdout, stderr = run(t, o, false, "status", "--wait", "--timeout=1s")
	assert.Check(t, code == exitDeadline && strings.Contains(stdout, "!! Manila") &&
		strings.HasSuffix(stderr, "the time limit has passed: --timeout=1s\n"),
		"exit code %d:\n%s\n%s", code, stdout, stderr)
}

// As in kubectl, the flags of the connection are in a list of their own.
func TestHelpIsAboutTheCommand(t *testing.T) {
	t.Parallel()
	_, help, _ := run(t, newOptions(), false, "why", "--help")
	_, flags, _ := run(t, newOptions(), false, "options")
	assert.Check(t, strings.Contains(help, "--output") && !strings.Contains(help, "--token") &&
		strings.Contains(help, "openstack-csi options") && strings.Contains(flags, "--token"),
		"%s\n%s", help, flags)
}

func TestOldestKubernetesIsThatOfTheChart(t *testing.T) {
	t.Parallel()
	var chart struct{ KubeVersion string }
	text, err := os.ReadFile("../../assets/helm/Chart.yaml")
	assert.NilError(t, errors.Join(err, yaml.Unmarshal(text, &chart)))
	assert.Check(t, is.Equal(chart.KubeVersion, ">="+minKubernetes+"-0"))
}

// The clock moves, so ages change.
func TestWatchPrintsWhatChanges(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	o := repaired(t, func(n int32) {
		if n > 300 {
			cancel()
		}
		clock.SetTime(clock.Now().Add(20 * time.Millisecond))
	})
	start := o.clock.Now()
	clock.SetTime(start)
	o.clock = clock
	var stdout strings.Builder
	code := execute(ctx, o, []string{"status", "-w", "--kubeconfig=" + kubeconfig(t)},
		Streams{Out: &stdout, Err: &stdout})
	first, last, _ := strings.Cut(stdout.String(), "\n\n")
	assert.Check(t, code == exitOK && strings.HasPrefix(first, "!! Manila") &&
		strings.HasPrefix(last, "ok ") && strings.Count(last, "DRIVER") == 2,
		"exit code %d, output:\n%s", code, &stdout)
}

func TestColorsAreOnlyForTerminalsWithoutNoColor(t *testing.T) {
	t.Parallel()
	for _, colored := range []bool{true, false} {
		_, stdout, _ := run(t, withoutOperator(t).options(t), colored, "status")
		assert.Check(t, is.Equal(strings.Contains(stdout, "\x1b[31m!!\x1b[0m Manila"), colored), stdout)
	}
	none := func(string) (string, bool) { return "1", true }
	assert.Check(t, !Standard(none).Color, "with NO_COLOR the output is colored")
}

// An object of the cluster must not control the terminal.
func TestUnprintableCharactersAreReplaced(t *testing.T) {
	t.Parallel()
	const hostile = "a\x7f\u009b\u202e\ufffe\x1b[2J\n\"<é"
	assert.Check(t, is.Equal(wrap("> ", "a\x1b[31mb\u009b c\n\td", 2), "> a [31mb c\n  d"))
	text, err := toYAML(map[string]string{"a": hostile})
	assert.NilError(t, err)
	assert.Check(t, !strings.ContainsAny(string(text), "\x7f\u009b\ufffe\x1b"), "YAML: %q", text)
	var got map[string]string
	assert.NilError(t, yaml.Unmarshal(text, &got))
	assert.Check(t, is.Equal(got["a"], hostile))
	encoded := escape([]byte(`{"a": "` + "\u202e\u009b" + `"}`))
	assert.Check(t, is.Equal(string(encoded), `{"a": "\u202e\u009b"}`))
}

func TestNamesOfObjectsAreThoseOfTheManifests(t *testing.T) {
	t.Parallel()
	operators, err := fixtures.AllOperators()
	assert.NilError(t, err)
	var want []driver
	for _, o := range operators {
		if onOpenShift(o.ClusterCSIDriver) == nil {
			continue // a new driver
		}
		of := driver{
			name: o.ClusterCSIDriver, operator: o.Name, operatorIn: o.Namespace,
			namespace: o.OperandNamespace,
			lease:     o.Component + "-lock", controller: o.Workloads[0], nodes: o.Workloads[1:],
		}
		if o.Component == "" {
			of.lease = o.Name + "-lock"
		}
		want = append(want, of)
	}
	got := drivers()
	for i := range got {
		for _, sidecar := range got[i].sidecars {
			assert.Check(t, !strings.Contains(sidecar.Lease(got[i].name), "."), "no Lease has this name")
		}
		got[i].title, got[i].kind, got[i].credentials, got[i].sidecars = "", "", "", nil
		got[i].loginSecret, got[i].loginOf, got[i].own = "", nil, ""
	}
	assert.Check(t, is.DeepEqual(want, got, cmp.AllowUnexported(driver{}, system{})), "drivers")
	operators, err = fixtures.KubernetesOperators([]string{"cinder", "manila"})
	assert.NilError(t, err)
	for i, d := range (&cluster{flavour: flavour.Of(false)}).drivers() {
		o := operators[i]
		assert.Check(t, d.name == o.ClusterCSIDriver && d.namespace == o.Namespace && d.credentials ==
			o.Credentials[0].Name, "on Kubernetes: %+v", d)
	}
}

// The pods mount all keys of the Secret if the volume lists none.
func TestPodsMountTheLogin(t *testing.T) {
	t.Parallel()
	for _, d := range drivers() {
		var volumes []corev1.Volume
		for _, file := range []string{"controller.yaml", "csi-addons/controller.yaml"} { // and a patch
			text, err := os.ReadFile(filepath.Join("../../assets/drivers", strings.ToLower(d.title),
				"generated/standalone", file))
			assert.NilError(t, err)
			var controller appsv1.Deployment
			assert.NilError(t, yaml.Unmarshal(text, &controller))
			volumes = append(volumes, controller.Spec.Template.Spec.Volumes...)
		}
		i := slices.IndexFunc(volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == d.loginSecret
		})
		assert.Assert(t, i >= 0, "no volume contains Secret %s", d.loginSecret)
		login := &clouds.Login{}
		login.AuthURL, login.Password = "u", "p"
		data := d.loginOf(login)
		for _, item := range volumes[i].Secret.Items {
			assert.Check(t, data[item.Key] != "", "pods read key %s of %v", item.Key, data)
		}
	}
}

func TestCompletionKnowsKindsAndNames(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"why ":              "daemonset/",
		"why pvc/":          "pvc/bound\npvc/disk\n",
		"why clustercsi/":   ":4\n",
		"status ":           "cinder\nmanila\n",
		"why daemonset/ops": "",
		"why -n ":           "kube-system\n:4",
		"volumes -o ":       "text\njson\nyaml\nwide\n:4",
	} {
		cluster := &scenario{Objects: []unstructured.Unstructured{{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "kube-system"},
		}}}}
		code, stdout, stderr := complete(t, cluster.options(t), word)
		assert.Check(t, is.Equal(code, exitOK), stderr)
		assert.Check(t, is.Contains(stdout, want), word)
	}
}

// Anybody who may write the Lease of a sidecar, or conditions, could write a line of the table.
func TestTextOfTheClusterAddsNoLine(t *testing.T) {
	t.Parallel()
	forged := "a\nManila  True\u202e\x1b[2J"
	report := &Status{
		Drivers: []DriverStatus{{Title: "Manila", Conditions: []opv1.OperatorCondition{
			{Type: "A", Status: opv1.ConditionTrue, Reason: forged},
		}}},
		Sidecars: []SidecarStatus{{Driver: "Manila", Name: "resizer", Leader: forged, Leads: true}},
		verbose:  true,
	}
	var out bytes.Buffer
	report.write(&out, false)
	text := out.String()
	assert.Check(t, !strings.ContainsAny(text, "\u202e\x1b") && !strings.Contains(text,
		"\nManila  True") && strings.Count(text, "a Manila True [2J") == 2, "got %q", text)
}

func TestCauseOfARolloutIsEverythingThatChanged(t *testing.T) {
	t.Parallel()
	workload := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Annotations: map[string]string{diagnosis.InputsAnnotation: "secret/s=2"},
	}}
	template := func(hash string, images ...string) *corev1.PodTemplateSpec {
		pod := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{diagnosis.InputAnnotation("a", "secret", "s"): hash},
		}}
		for i, image := range images {
			pod.Spec.Containers = append(pod.Spec.Containers,
				corev1.Container{Name: []string{"driver", "sidecar"}[i], Image: image})
		}
		return pod
	}
	for name, test := range map[string]struct {
		before, now *corev1.PodTemplateSpec
		want        string
	}{
		"rotation": {template("1", "v1"), template("2", "v1"), "secret/s changed"},
		"upgrade": {
			template("1", "v1"), template("2", "v2", "v2"),
			"the image of driver, sidecar changed, and secret/s changed",
		},
		"something else": {template("2", "v1"), template("2", "v1"), "the pod template changed"},
	} {
		assert.Check(t, is.Equal(cause(workload, test.before, test.now), test.want), name)
	}
}

// The page lists the reasons of the controller.
func TestReasonsOfCSIAddonsHaveAdvice(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/csi-addons/reference.md")
	assert.NilError(t, err)
	_, section, _ := strings.Cut(string(page), "## Reasons of CSIAddonsNodes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, section, _ = strings.Cut(section, "\n- ")
	reasons := regexp.MustCompile("`([A-Z]\\w+)`[,:]").FindAllStringSubmatch(section, -1)
	assert.Check(t, len(reasons) > 8, "%v", reasons)
	for _, reason := range reasons {
		assert.Check(t, advice(reason[1]) != "", reason[1])
	}
}

// The ClusterRole allows what the commands of the golden files, and completion, request, except for
// pull Secrets: without the permission the commands say less.
func TestClusterRoleAllowsExactlyWhatStatusAndWhyRequest(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, file := range scenarioFiles(t) {
		var s scenario
		decode(t, file, &s)
		run(t, recording(t, &s, used), false, strings.Fields(s.Args)...)
	}
	for _, s := range situations(t) {
		run(t, recording(t, &s.scenario, used), false, strings.Fields(s.Args)...)
	}
	for kind := range explainers() {
		complete(t, recording(t, &scenario{}, used), "why "+kind+"/")
	}
	complete(t, recording(t, &scenario{}, used), "why -n ")
	delete(used, "get secrets.")
	diff := cmp.Diff(slices.Sorted(maps.Keys(allowed(t))), slices.Sorted(maps.Keys(used)))
	assert.Check(t, diff == "", "permissions (-allowed +used):\n%s", diff)
}

// allowed returns the permissions of the ClusterRole.
func allowed(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	var role rbacv1.ClusterRole
	decode(t, "../../assets/kubectl/clusterrole.yaml", &role)
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[fmt.Sprintf("%s %s.%s", verb, resource, rule.APIGroups[0])] = true
			}
		}
	}
	return all
}

// The commands of the pages use these variables.
func TestPageOfNamesSetsTheVariablesOfEachDriver(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/names.md")
	assert.NilError(t, err)
	for _, f := range []flavour.Flavour{flavour.Kubernetes, flavour.Standalone} {
		c := &cluster{flavour: f}
		for _, d := range c.drivers() {
			operators := d.namespace
			if f.OpenShift() {
				operators = flavour.DefaultNamespace
			}
			for _, line := range []string{
				fmt.Sprintf("OBJECT=%s NAMESPACE=%s OPERATORS=%s", strings.Replace(c.argument(d), " ", "/", 1),
					d.namespace, operators),
				fmt.Sprintf("OPERATOR=%s CONTROLLER=%s", d.operator, d.controller),
			} {
				assert.Check(t, is.Contains(string(page), "\n    "+line+"\n"))
			}
		}
	}
}

// The page names what must-gather lists. The ClusterRole allows the rest, which is for the status.
func TestPageNamesThePermissionsOfMustGather(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/kubectl.md")
	assert.NilError(t, err)
	_, section, _ := strings.Cut(string(page), "\n`must-gather` needs ")
	section, _, _ = strings.Cut(section, "\n## ")
	words := regexp.MustCompile(`\w+`).FindAllString(strings.ToLower(section), -1)
	for _, kind := range slices.Concat(clusterKinds(), namespacedKinds(), userKinds()) {
		assert.Check(t, is.Contains(words, path.Base(folder(kind))))
	}
	used, role := map[string]bool{}, allowed(t)
	run(t, recording(t, &scenario{}, used), false, "must-gather", filepath.Join(t.TempDir(), "out"))
	for permission := range used {
		_, resource, _ := strings.Cut(permission, " ")
		resource, _, _ = strings.Cut(resource, ".")
		assert.Check(t, role[permission] || slices.Contains(words, resource), "nowhere: %s", permission)
	}
}

// recording returns options whose client records the permissions that a command needs.
func recording(t *testing.T, s *scenario, used map[string]bool) *options {
	t.Helper()
	o := s.options(t)
	inner := s.client(t)
	add := func(verb string, object runtime.Object) error {
		kind, err := apiutil.GVKForObject(object, inner.Scheme())
		if err != nil {
			return err
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		used[fmt.Sprintf("%s %s.%s", verb, resource.Resource, resource.Group)] = true
		return nil
	}
	connectTo(o, interceptor.NewClient(inner, onRead(add)))
	return o
}

// The log of a container that never ran says nothing, and each reason has something to do.
func TestNextStepFollowsTheReasonOfAPod(t *testing.T) {
	t.Parallel()
	ran := []string{diagnosis.ReasonCrash, diagnosis.ReasonFailed, diagnosis.ReasonNotReady}
	seen := map[string]bool{}
	for _, reason := range append(diagnosis.PodReasons(), "ContainerCreating") {
		next := Link{}.thenStart(reason, "pod a/b").Next
		assert.Check(t, is.Contains(next, "pod a/b"), reason)
		assert.Check(t, is.Equal(strings.Contains(next, "log"), slices.Contains(ran, reason)), reason)
		seen[next] = true
	}
	assert.Check(t, len(seen) >= 5, "texts: %v", seen)
}

// On a real node the name of the container was cut out, because an image had a long error.
func TestSentenceKeepsOurWordsRatherThanThoseOfAComponent(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("failed to pull: ", 20) + "connection refused"
	const ours = "container a is in ImagePullBackOff: failed to pull: "
	l := linkf(Problem, "container a is in ImagePullBackOff: %s", said).
		then(`Yours: a, or "b. c"; then yours: d`)
	l.said = said
	for room, want := range map[int]string{
		400: `: connection refused. Yours: a, or "b. c"; then yours: d`,
		200: `: connection refused. Yours: a, or "b. c"`,
		60:  `: connection refused. Yours: a, or "b. c"`,
	} {
		got := l.sentence(room)
		assert.Check(t, strings.HasPrefix(got, ours) && strings.HasSuffix(got, want) &&
			strings.Contains(got, " … "), "%d characters: %s", room, got)
	}
}

// Each step is whole, so the first sentence about any status of OpenStack ends where a step does.
func TestSentencesOfStatusesAreWhole(t *testing.T) {
	t.Parallel()
	for _, a := range ailments(t) {
		if l := a.link(); l != nil {
			got, all := l.sentence(0), strings.Join(strings.Fields(l.Text+". "+l.Next), " ")
			assert.Check(t, isWhole(got) && strings.HasPrefix(all+thenStep, got+thenStep), got)
		}
	}
}
