package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// newCloud starts a cloud, and returns the path of its clouds.yaml.
func newCloud(t *testing.T, config simulator.Config) (*simulator.Simulator, string) {
	t.Helper()
	cloud, err := simulator.New(config)
	assert.NilError(t, err)
	assert.NilError(t, cloud.Start(t.Context()))
	t.Cleanup(func() { _ = cloud.Close() })
	file, options := filepath.Join(t.TempDir(), "clouds.yaml"), simulator.Clouds{}
	if config.TLS {
		options.CACert = filepath.Join(filepath.Dir(file), "ca.crt")
		write(t, options.CACert, cloud.CA())
	}
	write(t, file, cloud.CloudsYAML(options))
	return cloud, file
}

func write(t *testing.T, file string, text []byte) {
	t.Helper()
	assert.NilError(t, os.WriteFile(file, text, 0o600))
}

// runChecked runs a command in an empty cluster or in the healthy one, and returns its output
// without line breaks.
func runChecked(t *testing.T, installed bool, wantCode int, args string) string {
	t.Helper()
	var s scenario
	if all, scenarios := situations(t); !installed {
		for i := range all {
			if all[i].Name == "a cluster without a driver" {
				s = *scenarios[i]
			}
		}
	}
	code, stdout, stderr := run(t, s.options(t), false, strings.Fields(args)...)
	assert.Check(t, code == wantCode, "%s: exit code %d, want %d", args, code, wantCode)
	return strings.Join(strings.Fields(stdout+stderr), " ")
}

// The path of the CA in the file is one of this machine.
func TestCheckTestsTheLogin(t *testing.T) {
	t.Parallel()
	cloud, file := newCloud(t, simulator.Config{
		TLS: true, ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	const accepted = "entry openstack, password. This machine sent it"
	got := runChecked(t, false, exitOK, "check --clouds "+file)
	for _, want := range []string{
		accepted, "ok Cinder offers 1 types to this project", "ok Manila offers 1 types to this project",
	} {
		assert.Check(t, strings.Contains(got, want), "%q is not in: %s", want, got)
	}
	if got := runChecked(t, true, exitOK, "check --clouds "+file); !strings.Contains(got, accepted) ||
		!strings.HasPrefix(got, "DRIVER READY") {
		t.Errorf("after the installation: %s", got)
	}
	cloud.RotateCredentials(simulator.Rotation{})
	const refused = "from this machine: OpenStack's identity service"
	if got := runChecked(t, false, exitFailed, "check --clouds "+file); !strings.HasPrefix(got,
		"the cluster is not ready for an installation: "+refused) ||
		!strings.Contains(got, "project and domain in "+file) {
		t.Errorf("with a wrong password: %s", got)
	}
	if got := runChecked(t, true, exitFailed, "check --clouds "+file); !strings.HasPrefix(got,
		"!! cloud "+refused) {
		t.Errorf("with a wrong password after the installation: %s", got)
	}
}

func TestCheckComparesTheTypesOfOpenStack(t *testing.T) {
	t.Parallel()
	cloud, file := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{
		{Name: "default"}, {Name: "gold", ShareServers: true},
	}})
	choices := filepath.Join(t.TempDir(), "operator.yaml")
	write(t, choices, []byte("apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n"+
		"types:\n  exclude: [silver]\nclasses:\n- {type: default, name: second}\n"))
	got := runChecked(t, false, exitOK, "check -f "+choices+" --clouds "+file)
	for _, want := range []string{
		`! types.exclude[0]: "silver" matches no share type that Manila offers`,
		`! share type "gold" needs a share network`,
		"StorageClasses: 1 created, 2 changed, 0 as they are", "+++ StorageClass/second",
		"+ csi.storage.k8s.io/node-stage-secret-name: csi-manila-secrets",
	} {
		assert.Check(t, strings.Contains(got, want), "%q is not in: %s", want, got)
	}
	cloud.RotateCredentials(simulator.Rotation{})
	got = runChecked(t, false, exitFailed, "check -f "+choices+" --clouds "+file)
	assert.Check(t, !strings.Contains(got, "StorageClasses:"),
		"without the types of OpenStack: %s", got)
}

// In the environment of the test no cluster answers.
func TestCheckOfAFileNeedsNoCluster(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(folder, "none"))
	t.Setenv("HOME", folder)
	dead := filepath.Join(folder, "dead")
	write(t, dead, []byte("apiVersion: v1\nkind: Config\ncurrent-context: a\n"+
		"contexts: [{name: a, context: {cluster: a}}]\n"+
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}]\n"))
	for args, want := range map[string]int{
		"check -f testdata/operator.wrong.yaml --kubeconfig=" + dead:  exitFailed,
		"check -f testdata/operator.cinder.yaml --kubeconfig=" + dead: exitUnreachable,
		"check -f testdata/operator.cinder.yaml":                      exitOK,
		"check -f testdata/operator.wrong.yaml":                       exitFailed,
		"check -f testdata/missing.yaml":                              exitUsage,
		"check":                                                       exitUsage,
	} {
		var stdout, stderr strings.Builder
		code := execute(t.Context(), newOptions(), strings.Fields(args),
			Streams{Out: &stdout, Err: &stderr})
		if code != want {
			t.Errorf("%s: exit code %d, want %d: %s%s", args, code, want, &stdout, &stderr)
		}
	}
}
