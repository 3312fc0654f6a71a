package kubectl

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// run executes a command, and returns the exit code, the output and the errors.
func run(t *testing.T, o *options, colored bool, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := execute(t.Context(), o, append(args, "--kubeconfig="+kubeconfig(t)),
		Streams{Out: &stdout, Err: &stderr, Color: colored})
	return code, stdout.String(), stderr.String()
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
		if code, _, stderr := run(t, newOptions(), false, strings.Fields(args)...); code != want {
			t.Errorf("%q: exit code %d, want %d: %s", args, code, want, stderr)
		}
	}
}

func TestErrorsNameTheFix(t *testing.T) {
	t.Parallel()
	const cinder = "cinder.csi.openstack.org"
	none := &scenario{Remove: []string{
		"ClusterCSIDriver " + cinder, "Deployment openstack-cinder-csi-driver-operator",
		"DaemonSet openstack-cinder-csi-driver-node",
	}}
	file := filepath.Join(t.TempDir(), "file")
	assert.NilError(t, os.WriteFile(file, nil, 0o600))
	for args, want := range map[string]string{
		"stauts":                  "try status",
		"why pvc/missing -n shop": "in namespace shop: choose another one with -n",
		"status cinder":           "ClusterCSIDriver " + cinder + " does not exist",
		"must-gather " + file:     "not a directory",
		"status --all-guests":     "use --all-guests with the kubeconfig of the management cluster",
		"status --management-namespace=hosed --management-kubeconfig=" + kubeconfig(t): "namespace " +
			"hosed of the management cluster contains no HostedControlPlane",
	} {
		code, stdout, stderr := run(t, none.options(t), false, strings.Fields(args)...)
		got := strings.Join(strings.Fields(stdout+stderr), " ")
		assert.Check(t, code != exitOK && strings.Contains(got, want),
			"%q: exit code %d, want %q in: %s", args, code, want, got)
	}
}

func TestWaitEndsWhenDriversAreReady(t *testing.T) {
	t.Parallel()
	var broken, healthy scenario
	decode(t, "testdata/status_operator_absent.yaml", &broken)
	decode(t, "testdata/status_healthy.yaml", &healthy)
	o := healthy.options(t)
	o.interval = time.Millisecond
	var requests atomic.Int32
	before := broken.client(t)
	connectTo(o, onGet(healthy.client(t), func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, object client.Object,
	) error {
		if requests.Add(1) < 100 {
			return before.Get(ctx, key, object)
		}
		return c.Get(ctx, key, object)
	}))
	code, stdout, stderr := run(t, o, false, "status", "manila", "--wait")
	const progress = "Manila: the operator does not run, so conditions may be out of date. Check " +
		"Deployment openshift-cluster-csi-drivers/manila-csi-driver-operator\n"
	if diff := cmp.Diff(progress, stderr); code != exitOK || diff != "" ||
		strings.Contains(stdout, "!!") {
		t.Errorf("exit code %d, output:\n%s\nprogress (-want +got):\n%s", code, stdout, diff)
	}
	o = broken.options(t)
	o.interval = time.Millisecond
	code, stdout, stderr = run(t, o, false, "status", "--wait", "--timeout=1s")
	if code != exitDeadline || !strings.Contains(stdout, "!! Manila") ||
		!strings.HasSuffix(stderr, "the time limit has passed: --timeout=1s\n") {
		t.Errorf("exit code %d:\n%s\n%s", code, stdout, stderr)
	}
}

// The clock moves, so ages change.
func TestWatchPrintsWhatChanges(t *testing.T) {
	t.Parallel()
	var broken, healthy scenario
	decode(t, "testdata/status_operator_absent.yaml", &broken)
	decode(t, "testdata/status_healthy.yaml", &healthy)
	o := healthy.options(t)
	o.interval = time.Millisecond
	start, requests := o.clock.Now(), atomic.Int32{}
	clock := clocktesting.NewFakePassiveClock(start)
	o.clock = clock
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	before := broken.client(t)
	connectTo(o, onGet(healthy.client(t), func(ctx context.Context, c client.WithWatch,
		key client.ObjectKey, object client.Object,
	) error {
		switch n := requests.Add(1); {
		case n < 100:
			return before.Get(ctx, key, object)
		case n > 300:
			cancel()
		}
		clock.SetTime(start.Add(time.Duration(requests.Load()) * 20 * time.Millisecond))
		return c.Get(ctx, key, object)
	}))
	var stdout, stderr bytes.Buffer
	code := execute(ctx, o, []string{"status", "-w", "--kubeconfig=" + kubeconfig(t)},
		Streams{Out: &stdout, Err: &stderr})
	first, last, _ := strings.Cut(stdout.String(), "\n\n")
	if code != exitOK || !strings.HasPrefix(first, "!! Manila") ||
		!strings.HasPrefix(last, "DRIVER ") || strings.Count(last, "DRIVER") != 2 {
		t.Errorf("exit code %d, %s, output:\n%s", code, &stderr, &stdout)
	}
}

func TestColorsAreOnlyForTerminalsWithoutNoColor(t *testing.T) {
	t.Parallel()
	var broken scenario
	decode(t, "testdata/status_operator_absent.yaml", &broken)
	for _, colored := range []bool{true, false} {
		_, stdout, _ := run(t, broken.options(t), colored, "status")
		if got := strings.Contains(stdout, "\x1b[31m!!\x1b[0m Manila"); got != colored {
			t.Errorf("colored %t:\n%s", colored, stdout)
		}
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
		if findDriver(o.ClusterCSIDriver) == nil {
			continue // a new driver
		}
		of := driver{
			name: o.ClusterCSIDriver, operator: o.Name, namespace: o.OperandNamespace,
			lease: o.Component + "-lock", controller: o.Workloads[0], nodes: o.Workloads[1:],
		}
		if o.Component == "" {
			of.lease = o.Name + "-lock"
		}
		want = append(want, of)
	}
	got := drivers()
	for i := range got {
		for _, sidecar := range got[i].sidecars {
			if lease := sidecar.Lease(got[i].name); strings.Contains(lease, ".") {
				t.Errorf("no Lease is named %s", lease)
			}
		}
		got[i].title, got[i].kind, got[i].credentials, got[i].sidecars = "", "", "", nil
		got[i].loginSecret, got[i].loginOf = "", nil
	}
	assert.Check(t, is.DeepEqual(want, got, cmp.AllowUnexported(driver{}, system{})), "drivers")
}

// The pods mount all keys of the Secret if the volume lists none.
func TestPodsMountTheLogin(t *testing.T) {
	t.Parallel()
	for _, d := range drivers() {
		var controller appsv1.Deployment
		decode(t, "../../assets/drivers/"+strings.ToLower(d.title)+
			"/generated/standalone/csi-addons/controller.yaml", &controller)
		volumes := controller.Spec.Template.Spec.Volumes
		i := slices.IndexFunc(volumes, func(v corev1.Volume) bool {
			return v.Secret != nil && v.Secret.SecretName == d.loginSecret
		})
		if i < 0 {
			t.Errorf("no volume contains Secret %s", d.loginSecret)
			continue
		}
		login := &openstack.Login{}
		login.AuthURL, login.Password = "u", "p"
		data := d.loginOf(login)
		for _, item := range volumes[i].Secret.Items {
			assert.Check(t, data[item.Key] != "",
				"pods read key %s of Secret %s, want one of %v", item.Key, d.loginSecret, data)
		}
	}
}

func TestCompletionKnowsKindsAndNames(t *testing.T) {
	t.Parallel()
	config := "--kubeconfig=" + kubeconfig(t)
	var healthy scenario
	for word, want := range map[string]string{
		"why ":              "daemonset/",
		"why pvc/":          "pvc/bound\npvc/disk\n",
		"why clustercsi/":   ":4\n",
		"status ":           "cinder\nmanila\n",
		"why daemonset/ops": "",
	} {
		args := append([]string{"__complete", config, "--namespace=shop"}, strings.Split(word, " ")...)
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), healthy.options(t), args, Streams{Out: &stdout, Err: &stderr})
		if code != exitOK || !strings.Contains(stdout.String(), want) {
			t.Errorf("%q: exit code %d:\n%s%s", word, code, stdout.String(), stderr.String())
		}
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
	if text := out.String(); strings.ContainsAny(text, "\u202e\x1b") ||
		strings.Contains(text, "\nManila  True") || strings.Count(text, "a Manila True [2J") != 2 {
		t.Errorf("got %q", text)
	}
}
