//go:build integration

package integration

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mustRepairConf changes and deletes cloud-conf in each cluster and checks that the operator
// repairs it.
func (e *cinderEnv) mustRepairConf() {
	e.t.Helper()
	e.awaitAvailable()
	want := map[string]string{confKey: generatedConf, topologyKey: "true"}
	for _, s := range e.driverNamespaces() {
		patch := func(text string) func() error {
			return func() error {
				return s.cluster.patch(e.ctx(), collection{configMaps(), s.namespace}, cloudConf, text)
			}
		}
		for name, change := range map[string]func() error{
			"changed":     patch(`{"data":{"cloud.conf":"[Global]\n"}}`),
			"key removed": patch(`{"data":{"enable_topology":null}}`),
			"key added":   patch(`{"data":{"ca-bundle.pem":"a leftover"}}`),
			"deleted": func() error {
				return s.cluster.kube.CoreV1().ConfigMaps(s.namespace).
					Delete(e.ctx(), cloudConf, metav1.DeleteOptions{})
			},
		} {
			e.sub(s.cluster.name+" "+name, func(*testing.T) {
				e.must(change())
				e.within(prompt, func() error { return e.hasCloudConf(want) })
				e.awaitAvailable()
			})
		}
	}
}

// configStep is a change of the driver's configuration, with the expected text after the generated
// part of cloud.conf and the expected topology.
type configStep struct {
	name           string
	change         func(e *env)
	conf, topology string
}

// Results of many steps.
const (
	attachLimit = "\n[BlockStorage]\nnode-volume-attach-limit = 25\n"
	rescan      = "\n[BlockStorage]\nrescan-on-resize = true\n"
)

// userConfig returns a change that writes the driver's own ConfigMap.
func userConfig(data map[string]string) func(e *env) {
	return func(e *env) {
		e.t.Helper()
		e.putUserConfig(data)
	}
}

// userText returns a change that writes lines into the driver's own ConfigMap.
func userText(lines ...string) func(e *env) {
	return userConfig(map[string]string{"config": strings.Join(lines, "\n") + "\n"})
}

func userConfigSteps() []configStep {
	return []configStep{
		{
			"config alone", userText("[BlockStorage]", "node-volume-attach-limit = 25"),
			attachLimit, "true",
		},
		{"topology alone", userConfig(map[string]string{topologyKey: "false"}), "", "false"},
		{"neither", userConfig(map[string]string{"another": "key"}), "", "true"},
		{
			"case", userText("[blockSTORAGE]", "Node-Volume-Attach-Limit = 25"),
			"\n[BlockStorage]\nNode-Volume-Attach-Limit = 25\n", "true",
		},
		{
			"quotes", userText("[BlockStorage]", `node-volume-attach-limit = "25" ; why`),
			"\n[BlockStorage]\nnode-volume-attach-limit = \"25\"\n", "true",
		},
		{
			"repeated", userText("[BlockStorage]", "rescan-on-resize = false", "[Metadata]",
				"[BlockStorage]", "rescan-on-resize = true"),
			"\n[BlockStorage]\nrescan-on-resize = false\nrescan-on-resize = true\n", "true",
		},
		{
			"leftovers", userText("[Global]", "secret-name = openstack-credentials",
				"secret-namespace = kube-system", "[BlockStorage]", "trust-device-path = true",
				"node-volume-attach-limit = 25", "[Metadata]", "search-order = configDrive"),
			attachLimit, "true",
		},
	}
}

// setCloudConfigKey makes Infrastructure refer to a key of the installer's ConfigMap.
func (e *env) setCloudConfigKey(key string) {
	e.t.Helper()
	e.patch(configResource("infrastructures"), "", "cluster",
		`{"spec":{"cloudConfig":{"name":"cloud-provider-config","key":"`+key+`"}}}`)
}

// installedConfigSteps returns the steps that follow userConfigSteps.
func installedConfigSteps() []configStep {
	return []configStep{
		{"both places", func(e *env) {
			e.patch(configMaps(), openshiftConfig, cloudProviderConfig,
				`{"data":{"config":"[BlockStorage]\nrescan-on-resize = true\n"}}`)
		}, attachLimit, "true"},
		{"the installer's place", func(e *env) {
			e.deleteUserConfig()
		}, rescan, "true"},
		{"another key", func(e *env) {
			e.patch(configMaps(), openshiftConfig, cloudProviderConfig,
				`{"data":{"cloud.conf":"[BlockStorage]\nnode-volume-attach-limit = 25\n"}}`)
			e.setCloudConfigKey("cloud.conf")
		}, attachLimit, "true"},
		{"a key that is missing", func(e *env) { e.setCloudConfigKey("nothing") }, "", "true"},
		{"no ConfigMap at all", func(e *env) {
			e.delete(configMaps(), openshiftConfig, cloudProviderConfig)
			e.setCloudConfigKey("config")
		}, "", "true"},
	}
}

// TestCinderRepairsConfigAndCopiesOnlyBlockStorageSettings checks both ConfigMaps that an
// administrator may use. Earlier releases copied other sections, too.
func TestCinderRepairsConfigAndCopiesOnlyBlockStorageSettings(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.mustRepairConf()
	e.mustApply(append(userConfigSteps(), installedConfigSteps()...))
}

func (e *cinderEnv) mustApply(steps []configStep) {
	e.t.Helper()
	e.awaitAvailable()
	for _, step := range steps {
		e.sub(step.name, func(*testing.T) {
			step.change(e.env)
			want := map[string]string{confKey: generatedConf + step.conf, topologyKey: step.topology}
			e.within(prompt, func() error { return e.hasCloudConf(want) })
			e.eventually(soon, e.notDegraded)
		})
	}
}
