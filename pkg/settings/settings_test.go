package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

const kubeconfig = `{apiVersion: v1, kind: Config, current-context: a,
	contexts: [{name: a, context: {cluster: a}}],
	clusters: [{name: a, cluster: {server: "https://localhost"}}]}`

// load parses args as the start command does.
func load(
	t *testing.T, env map[string]string, images [][]string, args ...string,
) (*settings.Settings, error) {
	t.Helper()
	return loadOptional(t, env, images, nil, args...)
}

// loadOptional is load with optional images.
func loadOptional(
	t *testing.T, env map[string]string, images, optional [][]string, args ...string,
) (*settings.Settings, error) {
	t.Helper()
	var flags settings.Flags
	set := pflag.NewFlagSet("start", pflag.ContinueOnError)
	flags.AddTo(set)
	assert.NilError(t, set.Parse(args))
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	return flags.Load(lookup, images, optional)
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestImageAndNamespaceAreEnough(t *testing.T) {
	t.Parallel()
	got, err := load(t, map[string]string{"DRIVER_IMAGE": "registry.example/driver@sha256:00"},
		[][]string{{"DRIVER_IMAGE"}}, "--namespace=ns")
	assert.NilError(t, err)
	want := &settings.Settings{
		Namespace:        "ns",
		RestartOn:        map[string][]byte{},
		Flavour:          flavour.Standalone,
		Images:           map[string]string{"DRIVER_IMAGE": "registry.example/driver@sha256:00"},
		PollInterval:     time.Minute,
		CloudGracePeriod: 15 * time.Minute,
	}
	assert.Check(t, is.DeepEqual(want, got), "settings")
}

func TestEverySettingIsRead(t *testing.T) {
	t.Parallel()
	guest := file(t, kubeconfig)
	env := map[string]string{
		"OPERATOR_IMAGE_VERSION": "4.21.3", "CSI_FSGROUP_POLICY": "File", "RUN_AS_USER": "1001",
		"SERVICE_MONITOR_LABELS": "release=prometheus",
		"HTTP_PROXY":             "http://proxy:1", "HTTPS_PROXY": "", "NO_PROXY": "a,b",
		"RELEASE_LEASES":               "true",
		"CSI_ADDONS_API_SERVER_TOKENS": "true", "CSI_ADDONS_MAX_ACCESS_RULES": "1000",
	}
	const configText = "apiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\n" +
		"servingInfo: {minTLSVersion: VersionTLS13}\n"
	config := file(t, configText)
	got, err := load(t, env, nil, "--namespace=ns", "--guest-kubeconfig="+guest, "--kubeconfig="+guest,
		"--poll-interval=5s", "--cloud-grace-period=1s",
		"--config="+config, "--terminate-on-files="+config, "--terminate-on-files=/other",
		"--listen=127.0.0.1:1")
	assert.NilError(t, err)
	want := &settings.Settings{
		Namespace: "ns", Kubeconfig: guest,
		RestartOn: map[string][]byte{
			config: []byte(configText), guest: []byte(kubeconfig), "/other": nil,
		},
		Flavour: flavour.HyperShift, GuestKubeconfig: guest, Images: map[string]string{},
		ReleaseVersion: "4.21.3",
		Proxy: []corev1.EnvVar{
			{Name: "HTTP_PROXY", Value: "http://proxy:1"}, {Name: "NO_PROXY", Value: "a,b"},
		},
		RunAsUser:     ptr.To[int64](1001),
		MonitorLabels: map[string]string{"release": "prometheus"},
		ReleaseLeases: ptr.To(true),
		FSGroupPolicy: "File",
		CSIAddons:     settings.CSIAddons{APIServerTokens: true, MaxAccessRules: 1000},
		PollInterval:  5 * time.Second, CloudGracePeriod: time.Second,
	}
	want.Operator.APIVersion = "operator.openshift.io/v1alpha1"
	want.Operator.Kind = "GenericOperatorConfig"
	want.Operator.ServingInfo.MinTLSVersion = "VersionTLS13"
	want.Operator.ServingInfo.BindAddress = "127.0.0.1:1"
	assert.Check(t, is.DeepEqual(want, got), "settings")
}

// Deployments of earlier releases, and of OpenShift, set them.
func TestSettingsOfEarlierReleasesHaveNoEffect(t *testing.T) {
	t.Parallel()
	want, err := load(t, nil, nil, "--namespace=ns")
	assert.NilError(t, err)
	got, err := load(t, map[string]string{"OS_CLIENT_CONFIG_FILE": "/nowhere"}, nil, "--namespace=ns",
		"--cloud-ca-file=/nowhere", "--credentials-wait=11m")
	assert.NilError(t, err)
	assert.Check(t, is.DeepEqual(want, got))
}

func TestEveryFaultIsNamedInOneLine(t *testing.T) {
	t.Parallel()
	env := map[string]string{"DRIVER_IMAGE": "${DRIVER_IMAGE}"}
	_, err := load(t, env, [][]string{{"DRIVER_IMAGE"}, {"PROVISIONER_IMAGE"}, {"A_IMAGE", "B_IMAGE"}},
		"--poll-interval=2m", "--cloud-grace-period=-1s", "--kubeconfig=/nowhere",
		"--guest-kubeconfig="+file(t, "no: [kubeconfig"),
		"--config="+file(t, "\tno yaml"))
	for _, fault := range []string{
		"--namespace is missing", "DRIVER_IMAGE is not the name of an image",
		"PROVISIONER_IMAGE is missing",
		"A_IMAGE or B_IMAGE is missing",
		"--poll-interval is 2m0s", "--cloud-grace-period is -1s",
		"--kubeconfig: open /nowhere: no such file", "--guest-kubeconfig",
		"is not a GenericOperatorConfig",
	} {
		assert.Assert(t, is.ErrorContains(err, fault))
	}
	assert.Check(t, !strings.Contains(err.Error(), "\n"), "more than one line: %v", err)
	_, err = load(t, nil, nil, "--namespace=ns", "--config="+file(t, "kind: ConfigMap"))
	assert.Check(t, is.ErrorContains(err, "is a ConfigMap, want a GenericOperatorConfig"))
}

func TestFlavourFitsTheOtherFlags(t *testing.T) {
	t.Parallel()
	got, err := load(t, nil, nil, "--namespace=ns", "--flavour=kubernetes")
	assert.NilError(t, err)
	assert.Check(t, is.Equal(got.Flavour, flavour.Kubernetes))
	for fault, arguments := range map[string][]string{
		`--flavour is "openshift": use standalone or`: {"--flavour=openshift"},
		"exclude each other": {
			"--flavour=kubernetes", "--guest-kubeconfig=" + file(t, kubeconfig),
		},
	} {
		_, err := load(t, nil, nil, append(arguments, "--namespace=ns")...)
		assert.Check(t, is.ErrorContains(err, fault))
	}
}

func TestUnusableOptionalSettingIsAWarning(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ value, want string }{
		"CSI_FSGROUP_POLICY":           {"Sometimes", ""},
		"RUN_AS_USER":                  {"0", ""},
		"SERVICE_MONITOR_LABELS":       {"a", ""},
		"RELEASE_LEASES":               {"on", ""},
		"CSI_ADDONS_API_SERVER_TOKENS": {"maybe", ""},
		"CSI_ADDONS_MAX_ACCESS_RULES":  {"1001", ", because it is not a number of rules"},
	} {
		got, err := load(t, map[string]string{name: tt.value}, nil, "--namespace=ns")
		assert.NilError(t, err)
		assert.Assert(t, is.Len(got.Warnings, 1))
		assert.Check(t, is.Contains(got.Warnings[0], name+` is "`+tt.value+`": it is ignored`+tt.want))
		assert.Check(t, !strings.Contains(got.Warnings[0], "\n"))
		assert.Check(t, got.FSGroupPolicy == "" && got.RunAsUser == nil, "%s is not ignored", name)
	}
	got, err := load(t, nil, nil, "--namespace=ns", "--config="+file(t, "servingInf: {}"))
	assert.NilError(t, err)
	assert.Assert(t, is.Len(got.Warnings, 1))
	assert.Check(t, is.Contains(got.Warnings[0], `unknown field "servingInf"`))
}

// net/http ignores such a proxy, or uses a part of its password as a host.
func TestProxyThatIsNoURLIsAWarning(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"http://user:a%23b@proxy:3128": true, "proxy:3128": true,
		"http://user:secret#b@proxy:3128": false, "http://user:secret%zz@proxy:3128": false,
	} {
		got, err := load(t, map[string]string{"HTTPS_PROXY": value}, nil, "--namespace=ns")
		assert.NilError(t, err)
		assert.Check(t, is.Equal(len(got.Warnings) == 0, valid), "%s: %q", value, got.Warnings)
		assert.Check(t, !strings.Contains(strings.Join(got.Warnings, ""), "secret"), value)
	}
}

func TestFirstSetImageVariableIsUsed(t *testing.T) {
	t.Parallel()
	for first, want := range map[string]string{"a": "a", "": "b"} {
		got, err := load(t, map[string]string{"A_IMAGE": first, "B_IMAGE": "b"},
			[][]string{{"A_IMAGE", "B_IMAGE"}}, "--namespace=ns")
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(map[string]string{"A_IMAGE": want}, got.Images))
		assert.Check(t, is.Equal(len(got.Warnings) == 1, first == ""), "warnings %q", got.Warnings)
	}
}

func TestOptionalImagesAreUsedTogether(t *testing.T) {
	t.Parallel()
	required := map[string]string{"A_IMAGE": "a"}
	for name, test := range map[string]struct {
		env     map[string]string
		want    map[string]string
		warning string
	}{
		"none":  {required, required, ""},
		"empty": {map[string]string{"A_IMAGE": "a", "B_IMAGE": ""}, required, ""},
		"one": {
			map[string]string{"A_IMAGE": "a", "B_IMAGE": "b"},
			map[string]string{"A_IMAGE": "a", "B_IMAGE": "b"},
			"environment variable C_IMAGE is missing: the pods get no containers of CSI-Addons, " +
				"although B_IMAGE is set, unless the administrator sets csiAddons.image",
		},
		"all": {
			map[string]string{"A_IMAGE": "a", "B_IMAGE": "b", "C_IMAGE": "c"},
			map[string]string{"A_IMAGE": "a", "B_IMAGE": "b", "C_IMAGE": "c"},
			"",
		},
	} {
		optional := [][]string{{"A_IMAGE"}, {"B_IMAGE"}, {"C_IMAGE"}}
		got, err := loadOptional(t, test.env, optional[:1], optional, "--namespace=ns")
		assert.NilError(t, err)
		assert.Check(t, is.DeepEqual(test.want, got.Images), "images: %s", name)
		assert.Check(t, is.Equal(strings.Join(got.Warnings, "; "), test.warning), name)
	}
	invalid := map[string]string{"A_IMAGE": "a", "B_IMAGE": "b c"}
	_, err := loadOptional(t, invalid, nil, [][]string{{"A_IMAGE"}, {"B_IMAGE"}}, "--namespace=ns")
	assert.Check(t, is.ErrorContains(err, "variable B_IMAGE is not the name of an image"))
}

func TestRunAsUserMustBeUnprivileged(t *testing.T) {
	t.Parallel()
	for value, valid := range map[string]bool{
		"1": true, "1001": true, "2147483647": true,
		"0": false, "-1": false, "2147483648": false, "99999999999999999999": false, "1e3": false,
		" 1": false, "core": false,
	} {
		got, err := load(t, map[string]string{"RUN_AS_USER": value}, nil, "--namespace=ns")
		assert.NilError(t, err, "%q", value)
		assert.Check(t, is.Equal(got.RunAsUser != nil, valid), "%q", value)
		assert.Check(t, is.Equal(len(got.Warnings) == 0, valid), "%q: %q", value, got.Warnings)
	}
}
