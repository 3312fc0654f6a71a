//go:build integration

package integration

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
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

func TestCinderAppliesUserConfigBeforeFirstPod(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Before: func(e *env) {
		e.putUserConfig(map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
	}})
	e.awaitAvailable()
	e.must(e.hasConf(rescan))
	ofCloudConf := func(r request) bool { return r.Name == cloudConf }
	writes := e.requests(e.began, request.isWrite, ofResource("configmaps"), ofCloudConf)
	if len(writes) != 1 {
		t.Errorf("%s was written %d times, want once:\n%s", cloudConf, len(writes), list(writes))
	}
}

// invalidConfig is a content of the driver's ConfigMap that the operator must reject.
type invalidConfig struct {
	key, text, message string
}

const administratorSecret = "leaked-by-the-administrator"

func invalidConfigs() map[string]invalidConfig {
	return map[string]invalidConfig{
		"no section": {"config", "[BlockStorage]\n\n]" + administratorSecret + "\n", "line 3"},
		"open quote": {"config", "[BlockStorage]\nrescan-on-resize = \"" + administratorSecret +
			"\n", "line 2"},
		"not a number": {"config", "# a comment\n[BlockStorage]\nnode-volume-attach-limit = " +
			administratorSecret + "\n", "line 3"},
		"not a boolean":   {topologyKey, "perhaps", "neither true nor false"},
		"before a header": {"config", "password = " + administratorSecret + "\n", "line 1"},
	}
}

// TestCinderKeepsConfigWhileUserConfigIsInvalid checks that a condition names ConfigMap, key and
// line, and that nothing is written until the text is fixed.
func TestCinderKeepsConfigWhileUserConfigIsInvalid(t *testing.T) {
	t.Parallel()
	const good = "[BlockStorage]\nrescan-on-resize = true\n"
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": good})
	}})
	e.mustRejectAll(openshiftConfig+"/"+cinderUserConfig, invalidConfigs())
	e.sub("installer's", func(*testing.T) {
		before := e.driverState()
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": "[Global\n"})
		e.mustReject(before, "line 1", openshiftConfig+"/"+cloudProviderConfig, "key config")
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": good})
		e.mustRecover(before)
	})
}

// mustRejectAll checks the invalid contents of the driver's ConfigMap. configMap is its name in
// messages.
func (e *cinderEnv) mustRejectAll(configMap string, contents map[string]invalidConfig) {
	e.t.Helper()
	e.secrets = append(e.secrets, administratorSecret)
	before := e.awaitIdle()
	for name, bad := range contents {
		e.sub(name, func(*testing.T) {
			e.putUserConfig(map[string]string{bad.key: bad.text})
			e.mustReject(before, bad.message, configMap, "key "+bad.key)
			e.putUserConfig(map[string]string{})
			e.mustRecover(before)
		})
	}
}

// mustReject waits until the condition contains all texts, and checks that nothing else changes.
func (e *cinderEnv) mustReject(before driverState, texts ...string) {
	e.t.Helper()
	e.within(prompt, func() error { return e.reports(cinderDegraded, texts...) })
	e.checkDriverForSecrets()
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	e.expectNoWritesFor(time.Second)
	e.must(e.stillHas(before))
}

func (e *cinderEnv) mustRecover(before driverState) {
	e.t.Helper()
	e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
	e.awaitAvailable()
	e.must(e.stillHas(before))
}

func TestCinderStartsAfterInvalidConfigIsFixed(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Before: func(e *env) {
		e.putUserConfig(map[string]string{"config": "[BlockStorage\n"})
	}})
	e.eventually(soon, func() error {
		return e.reports(cinderDegraded, "line 1", cinderUserConfig, "key config")
	})
	if conf, err := e.cloudConf(); err == nil {
		t.Errorf("cloud-conf exists: %v", conf)
	}
	e.must(e.hasNoWorkloads())
	e.putUserConfig(map[string]string{"config": "[BlockStorage]\n"})
	e.awaitAvailable()
	e.must(e.hasConf(""))
}

// TestCinderUsesCAOfCredentialsBeforeCloudConfig checks cloud-conf, the path in cloud.conf, that
// operator and driver use the CA, and that a broken CA does not roll out.
func TestCinderUsesCAOfCredentialsBeforeCloudConfig(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{TLS: true}})
	e.mustNotRollOutBrokenCA()
	e.mustUseCA()
}

// mustNotRollOutBrokenCA checks that a condition names Secret and key.
func (e *cinderEnv) mustNotRollOutBrokenCA() {
	e.t.Helper()
	before := e.awaitIdle()
	for name, ca := range map[string]string{"no PEM": "leaked", "not UTF-8": string(e.ca) + "\xfc"} {
		e.sub(name, func(*testing.T) {
			e.patchBesideController(secrets(), cinderCredentials,
				fmt.Sprintf(`{"data":{"cacert":%q}}`, base64.StdEncoding.EncodeToString([]byte(ca))))
			e.within(prompt, func() error {
				return e.reports(cinderDegraded,
					"key cacert of Secret "+operatorNamespace+"/"+cinderCredentials)
			})
			e.awaitNoWrites()
			if diff := cmp.Diff(before.conf, e.driverState().conf); diff != "" {
				e.t.Errorf("%s changed:\n%s", cloudConf, diff)
			}
			e.patchBesideController(secrets(), cinderCredentials,
				fmt.Sprintf(`{"data":{"cacert":%q}}`, base64.StdEncoding.EncodeToString(e.ca)))
			e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
			e.awaitAvailable()
		})
	}
}

func (e *cinderEnv) mustUseCA() {
	e.t.Helper()
	const caFile = "ca-file = " + caFromConfigMap + "\n"
	with := func(ca string) map[string]string {
		return map[string]string{
			confKey: generatedConf + caFile, topologyKey: "true",
			caKeyOfCloudProvider: ca,
		}
	}
	e.awaitAvailable()
	e.must(e.hasCloudConf(with(string(e.ca))))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	e.awaitNoWrites() // the operator may still annotate the DaemonSets

	installers, another := string(e.ca)+"# the installer's\n", string(e.ca)+"# another\n"
	e.putCloudCA(installers)
	e.triggerZoneProbe()
	e.expectNoWritesFor(2 * time.Second)
	e.must(e.hasCloudConf(with(string(e.ca))))

	e.patchBesideController(secrets(), cinderCredentials, `{"data":{"cacert":null}}`)
	e.within(prompt, func() error { return e.hasCloudConf(with(installers)) })
	e.putCloudCA(another)
	e.within(prompt, func() error { return e.hasCloudConf(with(another)) })
	before := e.awaitIdle()
	e.putCloudCA("no certificate")
	e.within(prompt, func() error {
		return e.reports(cinderDegraded, "key "+caKeyOfCloudProvider+" of ConfigMap",
			"contains no PEM certificate")
	})
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	e.putCloudCA("")
	e.within(prompt, func() error {
		return e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"})
	})
	e.awaitAvailable()
	for name, w := range e.workloads() {
		want := "configMap cloud-conf optional ca-bundle.pem->ca-bundle.pem"
		if got := strings.Join(volumeSources(w.Pod, "cacert"), " "); got != want {
			e.t.Errorf("the CA of %s is from %q", name, got)
		}
	}
}
