//go:build integration

package integration

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func configMaps() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
}

// TestCinderConfIsRepaired: whatever is done to cloud-conf, it becomes what it was.
func TestCinderConfIsRepaired(t *testing.T) {
	e := newCinder(t, options{})
	e.awaitAvailable()
	want := map[string]string{confKey: generatedConf, topologyKey: "true"}
	for name, harm := range map[string]func(){
		"changed": func() { e.patch(configMaps(), operatorNamespace, cloudConf, `{"data":{"cloud.conf":"[Global]\n"}}`) },
		"lacking": func() { e.patch(configMaps(), operatorNamespace, cloudConf, `{"data":{"enable_topology":null}}`) },
		"surplus": func() { e.patch(configMaps(), operatorNamespace, cloudConf, `{"data":{"ca-bundle.pem":"a leftover"}}`) },
		"deleted": func() {
			e.must(e.kube.CoreV1().ConfigMaps(operatorNamespace).Delete(e.ctx(), cloudConf, metav1.DeleteOptions{}))
		},
	} {
		e.sub(name, func(*testing.T) {
			harm()
			e.within(prompt, func() error { return e.hasCloudConf(want) })
			e.awaitAvailable()
		})
	}
}

// TestCinderUserConfig: the administrator's [BlockStorage] is what the driver gets, from either place, and nothing else of the
// text (faults 54, 56 to 58, 1.11-11).
func TestCinderUserConfig(t *testing.T) {
	const limit = "\n[BlockStorage]\nnode-volume-attach-limit = 25\n"
	e := newCinder(t, options{})
	e.awaitAvailable()
	reference := func(key string) {
		e.patch(configResource("infrastructures"), "", "cluster", `{"spec":{"cloudConfig":{"name":"cloud-provider-config","key":"`+key+`"}}}`)
	}
	own := func(data map[string]string) func() {
		return func() { e.putConfigMap(openshiftConfig, cinderUserConfig, data) }
	}
	for _, step := range []struct {
		name     string
		change   func()
		conf     string
		topology string
	}{
		{"config alone", own(map[string]string{"config": "[BlockStorage]\nnode-volume-attach-limit = 25\n"}), limit, "true"},
		{"topology alone", own(map[string]string{topologyKey: "false"}), "", "false"},
		{"neither", own(map[string]string{"another": "key"}), "", "true"},
		{"case", own(map[string]string{"config": "[blockSTORAGE]\nNode-Volume-Attach-Limit = 25\n"}), "\n[BlockStorage]\nNode-Volume-Attach-Limit = 25\n", "true"},
		{"quotes", own(map[string]string{"config": "[BlockStorage]\nnode-volume-attach-limit = \"25\" ; why\n"}), "\n[BlockStorage]\nnode-volume-attach-limit = \"25\"\n", "true"},
		{
			"repeated", own(map[string]string{"config": "[BlockStorage]\nrescan-on-resize = false\n[Metadata]\n[BlockStorage]\nrescan-on-resize = true\n"}),
			"\n[BlockStorage]\nrescan-on-resize = false\nrescan-on-resize = true\n", "true",
		},
		{
			"leftovers", own(map[string]string{"config": "[Global]\nsecret-name = openstack-credentials\nsecret-namespace = kube-system\n" +
				"[BlockStorage]\ntrust-device-path = true\nnode-volume-attach-limit = 25\n[Metadata]\nsearch-order = configDrive\n"}),
			limit, "true",
		},
		{"both places", func() {
			e.patch(configMaps(), openshiftConfig, cloudProviderConfig, `{"data":{"config":"[BlockStorage]\nrescan-on-resize = true\n"}}`)
		}, limit, "true"},
		{"the installer's place", func() {
			e.must(e.kube.CoreV1().ConfigMaps(openshiftConfig).Delete(e.ctx(), cinderUserConfig, metav1.DeleteOptions{}))
		}, "\n[BlockStorage]\nrescan-on-resize = true\n", "true"},
		{"another key", func() {
			e.patch(configMaps(), openshiftConfig, cloudProviderConfig, `{"data":{"cloud.conf":"[BlockStorage]\nnode-volume-attach-limit = 25\n"}}`)
			reference("cloud.conf")
		}, limit, "true"},
		{"a key that is missing", func() { reference("nothing") }, "", "true"},
		{"no ConfigMap at all", func() {
			e.must(e.kube.CoreV1().ConfigMaps(openshiftConfig).Delete(e.ctx(), cloudProviderConfig, metav1.DeleteOptions{}))
			reference("config")
		}, "", "true"},
	} {
		e.sub(step.name, func(*testing.T) {
			step.change()
			want := map[string]string{confKey: generatedConf + step.conf, topologyKey: step.topology}
			e.within(prompt, func() error { return e.hasCloudConf(want) })
			e.eventually(soon, e.notDegraded)
		})
	}
}

// TestCinderUserConfigAtStart: settings are there from the first pod on (fault 54).
func TestCinderUserConfigAtStart(t *testing.T) {
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage]\nrescan-on-resize = true\n"})
	}})
	e.awaitAvailable()
	e.must(e.hasConf("\n[BlockStorage]\nrescan-on-resize = true\n"))
	if writes := e.requests(e.began, request.isWrite, ofResource("configmaps"), func(r request) bool { return r.Name == cloudConf }); len(writes) != 1 {
		t.Errorf("%s was written %d times, want once:\n%s", cloudConf, len(writes), list(writes))
	}
}

// TestCinderUnusableConfig: a text that cannot be used is named by ConfigMap, key and line; the last good configuration stays
// until the text is mended, and nothing is written meanwhile.
func TestCinderUnusableConfig(t *testing.T) {
	const secret, good = "leaked-by-the-administrator", "[BlockStorage]\nrescan-on-resize = true\n"
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": good})
	}})
	e.secrets = append(e.secrets, secret)
	e.awaitAvailable()
	e.rest()
	before := e.untouched()
	for name, bad := range map[string]struct {
		configMap, key, text string
		says                 []string
	}{
		"no section":      {cinderUserConfig, "config", "[BlockStorage]\n\n]" + secret + "\n", []string{"line 3"}},
		"open quote":      {cinderUserConfig, "config", "[BlockStorage]\nrescan-on-resize = \"" + secret + "\n", []string{"line 2"}},
		"no number":       {cinderUserConfig, "config", "# a comment\n[BlockStorage]\nnode-volume-attach-limit = " + secret + "\n", []string{"line 3"}},
		"installer's":     {cloudProviderConfig, "config", "[Global\n", []string{"line 1"}},
		"not a switch":    {cinderUserConfig, topologyKey, "perhaps", []string{"neither true nor false"}},
		"before a header": {cinderUserConfig, "config", "password = " + secret + "\n", []string{"line 1"}},
	} {
		e.sub(name, func(*testing.T) {
			e.putConfigMap(openshiftConfig, bad.configMap, map[string]string{bad.key: bad.text})
			says := append(bad.says, openshiftConfig+"/"+bad.configMap, "key "+bad.key)
			e.within(prompt, func() error { return e.says(cinderDegraded, says...) })
			e.checkObjects(e.ctx()) // of the secret in this very condition
			e.must(e.hasOnly(cinderDegraded))
			e.rest()
			e.idle(time.Second)
			e.must(e.isAs(before))
			mended := map[string]map[string]string{cinderUserConfig: {}, cloudProviderConfig: {"config": good}}
			e.putConfigMap(openshiftConfig, bad.configMap, mended[bad.configMap])
			e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
			e.awaitAvailable()
			e.must(e.isAs(before))
		})
	}
}

// TestCinderUnusableConfigAtFirst: with a text that never could be used there is no configuration; mended, the driver comes up.
func TestCinderUnusableConfigAtFirst(t *testing.T) {
	e := newCinder(t, options{Before: func(e *env) {
		e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage\n"})
	}})
	e.eventually(soon, func() error { return e.says(cinderDegraded, "line 1", cinderUserConfig, "key config") })
	if conf, err := e.cloudConf(); err == nil {
		t.Errorf("the driver got a configuration: %v", conf)
	}
	e.must(e.lacksWorkloads())
	e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage]\n"})
	e.awaitAvailable()
	e.must(e.hasConf(""))
}

// TestCinderCA: the CA is that of the credentials, else that of the installer's ConfigMap; it is in cloud-conf, and cloud.conf
// names the file (faults 33, 52, 59). Both operator and driver find it.
func TestCinderCA(t *testing.T) {
	const caFile = "ca-file = /etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem\n"
	e := newCinder(t, options{Cloud: simulator.Config{TLS: true}})
	with := func(ca string) map[string]string {
		return map[string]string{confKey: generatedConf + caFile, topologyKey: "true", caKeyOfCloudProvider: ca}
	}
	e.awaitAvailable()
	e.must(e.hasCloudConf(with(string(e.ca))))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))

	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{caKeyOfCloudProvider: "the installer's"})
	e.lookAgain()
	e.idle(2 * time.Second)
	e.must(e.hasCloudConf(with(string(e.ca))))

	e.patch(secrets(), operatorNamespace, cinderCredentials, `{"data":{"cacert":null}}`)
	e.within(prompt, func() error { return e.hasCloudConf(with("the installer's")) })
	e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{caKeyOfCloudProvider: "another"})
	e.within(prompt, func() error { return e.hasCloudConf(with("another")) })
	e.must(e.kube.CoreV1().ConfigMaps(openshiftConfig).Delete(e.ctx(), cloudProviderConfig, metav1.DeleteOptions{}))
	e.within(prompt, func() error {
		return e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"})
	})
	e.awaitAvailable()
	for name, w := range e.workloads() {
		if got := strings.Join(sourcesOf(w.Pod, "cacert"), " "); got != "configMap cloud-conf optional ca-bundle.pem->ca-bundle.pem" {
			t.Errorf("the CA of %s is from %q", name, got)
		}
	}
}
