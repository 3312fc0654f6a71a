package cinder

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func TestComponentsOfTheDriver(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, clustertest.Seed{Flavour: f})
			components, err := Driver().Setup(plugin.Dependencies{
				Cluster: b.Cluster, Settings: &settings.Settings{}, Events: b.events, Clock: b.clock,
			})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, c := range append([]factory.Controller{components.Probe}, components.Controllers...) {
				names = append(names, c.Name())
			}
			want := []string{"CinderCloudProbe", "OpenStackCinderConfigSync", "CinderStorageClassController"}
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("controllers (-want +got):\n%s", diff)
			}
			if components.StartWhenAvailable || components.Ready() {
				t.Errorf("waits for OpenStack is %v, ready without a configuration is %v",
					components.StartWhenAvailable, components.Ready())
			}
			for side, workload := range map[flavour.Side][]hook.Workload{
				flavour.ControlPlane: components.ControllerHooks, flavour.Guest: components.NodeHooks,
			} {
				want := []string{"Secret/" + credentialsSecret, "ConfigMap/" + configMap}
				if diff := cmp.Diff(want, inputsOf(workload)); diff != "" {
					t.Errorf("inputs of the %s (-want +got):\n%s", side, diff)
				}
				for _, h := range workload {
					if len(h.Informers) == 0 {
						t.Errorf("an input of the %s has no informer of its own", side)
					}
				}
			}
		})
	}
}

func inputsOf(hooks []hook.Workload) []string {
	var ret []string
	for _, h := range hooks {
		for _, input := range h.RolloutInputs {
			ret = append(ret, input.Kind+"/"+input.Name)
		}
	}
	return ret
}

// hashes returns the annotations that the inputs add to pods.
func hashes(t *testing.T, b *fixture) map[string]string {
	t.Helper()
	s := plugin.Dependencies{
		Cluster: b.Cluster, Settings: &settings.Settings{}, Events: b.events, Clock: b.clock,
	}
	var key hook.Key
	key.Set(make([]byte, hook.KeySize))
	none := b.Side(flavour.Guest).ObjectInformers.For("none", "none").Apps().V1()
	var deployment appsv1.Deployment
	hooks := inputs(s, flavour.ControlPlane, &b.accepted)
	controller := hook.RollOutDeployment(&key, none.Deployments().Lister(), b.events, hooks)
	if err := controller.Deployment(nil, &deployment); err != nil {
		t.Fatal(err)
	}
	var daemonSet appsv1.DaemonSet
	hooks = inputs(s, flavour.Guest, &b.accepted)
	node := hook.RollOutDaemonSet(&key, none.DaemonSets().Lister(), b.events, hooks)
	if err := node.DaemonSet(nil, &daemonSet); err != nil {
		t.Fatal(err)
	}
	ret := daemonSet.Spec.Template.Annotations
	controllers := deployment.Spec.Template.Annotations
	if b.Flavour == flavour.Standalone && !cmp.Equal(ret, controllers) {
		t.Errorf("the Deployment has %v, the DaemonSet %v", controllers, ret)
	}
	return ret
}

// Probes do not trigger rollouts.
func TestRolloutInputsFollowTheContent(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	if err := b.sync(t); err != nil {
		t.Fatal(err)
	}
	before := hashes(t, b)
	if len(before) != 2 {
		t.Fatalf("hashes are %v, want those of the credentials and of cloud-conf", before)
	}
	changed := func(after map[string]string) int {
		n := 0
		for key, hash := range before {
			if after[key] != hash {
				n++
			}
		}
		before = after
		return n
	}
	b.cloud.fail(openstack.AuthenticationFailed)
	b.advance(grace)
	if err := b.sync(t); err != nil {
		t.Fatal(err)
	}
	if n := changed(hashes(t, b)); n != 0 {
		t.Errorf("%d hashes changed when the cloud refused the credentials", n)
	}
	b.putCredentials(t, keys{cloudsKey: strings.ReplaceAll(clouds("openstack"), password, "another")})
	if n := changed(hashes(t, b)); n != 1 {
		t.Errorf("%d hashes changed with the credentials, want one", n)
	}
	b.put(t, keys{userConfigKey: userText})
	if err := b.sync(t); err != nil {
		t.Fatal(err)
	}
	if n := changed(hashes(t, b)); n != 1 {
		t.Errorf("%d hashes changed with the configuration, want one", n)
	}
}

// TestWorkloadsWaitForCloudConfOfTheOperator checks that workloads start only with the final
// content, so that an upgrade from an earlier operator rolls them out once. Until OpenStack accepts
// the credentials, the operator writes only a cloud-conf that is missing.
func TestWorkloadsWaitForCloudConfOfTheOperator(t *testing.T) {
	t.Parallel()
	own := keys{configKey: configText, topologyKey: "true"}
	earlier := keys{
		configKey: "[BlockStorage]\nrescan-on-resize = true\n\n[Global]\nuse-clouds  = true\n" +
			"clouds-file = " + mountedClouds + "\ncloud       = openstack\n",
		topologyKey: "true",
	}
	const namespace = flavour.DefaultNamespace
	for name, test := range map[string]struct {
		flavour           flavour.Flavour
		guest, controller keys
		want              bool
	}{
		"standalone, none":               {flavour.Standalone, nil, nil, true},
		"standalone, own":                {flavour.Standalone, own, nil, true},
		"standalone, earlier":            {flavour.Standalone, earlier, nil, false},
		"HyperShift, none":               {flavour.HyperShift, nil, nil, true},
		"HyperShift, own":                {flavour.HyperShift, own, own, true},
		"HyperShift, earlier guest":      {flavour.HyperShift, earlier, own, false},
		"HyperShift, earlier controller": {flavour.HyperShift, own, earlier, false},
		"HyperShift, earlier":            {flavour.HyperShift, earlier, earlier, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := seeds()[test.flavour]
			if test.guest != nil {
				seed.Guest = append(seed.Guest, cloudConf(namespace, test.guest))
			}
			if test.controller != nil {
				seed.ControlPlane = append(seed.ControlPlane, cloudConf(hosted, test.controller))
			}
			b := newFixture(t, seed)
			if b.config.written() {
				t.Error("workloads start before the operator has determined the content")
			}
			b.accepted.Held.Store(true)
			if err := b.sync(t); err != nil || b.config.written() != test.want {
				t.Errorf("before the login, workloads start: %v (%v)", b.config.written(), err)
			}
			b.accepted.Held.Store(false)
			if err := b.sync(t); err != nil || !b.config.written() {
				t.Errorf("after the login, workloads start: %v (%v)", b.config.written(), err)
			}
		})
	}
}

// TestDriverKeepsNamesThatOthersUse checks the names by which other components identify the driver.
func TestDriverKeepsNamesThatOthersUse(t *testing.T) {
	t.Parallel()
	d := Driver()
	if d.Name != "cinder.csi.openstack.org" || d.ConditionPrefix != "OpenStackCinder" || d.Removable {
		t.Errorf("the driver is %s with prefix %s, removable is %v",
			d.Name, d.ConditionPrefix, d.Removable)
	}
	p := flavour.Standalone.Namespaces("x", d.Namespace)
	if p.Guest != "openshift-cluster-csi-drivers" {
		t.Errorf("the operands are in %s", p.Guest)
	}
}
