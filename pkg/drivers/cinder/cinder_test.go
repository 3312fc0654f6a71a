package cinder

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

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
			assert.NilError(t, err)
			var names []string
			for _, c := range append([]factory.Controller{components.Probe}, components.Controllers...) {
				names = append(names, c.Name())
			}
			want := []string{"CinderCloudProbe", "OpenStackCinderConfigSync", "CinderStorageClassController"}
			assert.Check(t, is.DeepEqual(want, names), "controllers")
			if components.StartWhenAvailable || components.Ready() {
				t.Errorf("waits for OpenStack is %v, ready without a configuration is %v",
					components.StartWhenAvailable, components.Ready())
			}
			for side, workload := range map[flavour.Side][]hook.Workload{
				flavour.ControlPlane: components.ControllerHooks, flavour.Guest: components.NodeHooks,
			} {
				want := []string{"Secret/" + credentialsSecret, "ConfigMap/" + configMap}
				if side == flavour.Guest { // pods on nodes do not depend on the Secret
					want = want[1:]
				}
				assert.Check(t, is.DeepEqual(want, inputsOf(workload)), "inputs of the %s", side)
				for _, h := range workload {
					if len(h.Informers) == 0 {
						t.Errorf("%s of the %s has no informer of its own", inputsOf(workload), side)
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

// hashes returns the annotations that the inputs add to the pods of the controller, and to those on
// the nodes.
func hashes(t *testing.T, b *fixture) (controller, node map[string]string) {
	t.Helper()
	var key hook.Key
	key.Set(make([]byte, hook.KeySize))
	none := b.Side(flavour.Guest).ObjectInformers.For("none", "none").Apps().V1()
	var deployment appsv1.Deployment
	hooks := hook.RollOutDeployment(&key, none.Deployments().Lister(), b.events,
		b.config.controllerHooks())
	assert.NilError(t, hooks.Deployment(nil, &deployment))
	var daemonSet appsv1.DaemonSet
	hooks = hook.RollOutDaemonSet(&key, none.DaemonSets().Lister(), b.events, b.config.nodeHooks())
	assert.NilError(t, hooks.DaemonSet(nil, &daemonSet))
	return deployment.Spec.Template.Annotations, daemonSet.Spec.Template.Annotations
}

// Probes do not trigger rollouts.
func TestRolloutInputsFollowTheContent(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	assert.NilError(t, b.sync(t))
	before, node := hashes(t, b)
	assert.Assert(t, len(before) == 2 && len(node) == 1,
		"hashes are %v and %v, want those of the login and of cloud-conf", before, node)
	changed := func() (inputs, nodes int) {
		controllers, ofNodes := hashes(t, b)
		for key, hash := range controllers {
			if before[key] != hash {
				inputs++
			}
		}
		if !maps.Equal(node, ofNodes) {
			nodes++
		}
		before, node = controllers, ofNodes
		return inputs, nodes
	}
	expect := func(what string, inputs, nodes int) {
		t.Helper()
		assert.NilError(t, b.sync(t))
		if n, onNodes := changed(); n != inputs || onNodes != nodes {
			t.Errorf("%s: %d inputs of the controller change and %d on nodes, want %d and %d", what, n,
				onNodes, inputs, nodes)
		}
	}
	b.cloud.fail(openstack.AuthenticationFailed)
	b.advance(grace)
	expect("the cloud refuses the credentials", 0, 0)
	rotated := strings.ReplaceAll(clouds("openstack"), password, "another")
	b.putCredentials(t, keys{openstack.CloudsKey: rotated})
	expect("other credentials", 1, 0)
	b.put(t, keys{userConfigKey: userText})
	expect("another configuration", 1, 1)
	b.putCredentials(t, keys{
		openstack.CloudsKey: strings.Replace(rotated, "{auth:", "{verify: false, auth:", 1),
	})
	expect("certificates are not verified", 2, 1)
}

// The pods of an earlier release mount the driver Secret.
func TestControllerKeepsItsLoginUntilAnotherIsWritten(t *testing.T) {
	t.Parallel()
	b := newFixture(t, standalone())
	volume := func(name string) corev1.PodSpec {
		source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "other"}, {
			Name: loginVolume, VolumeSource: source,
		}}}
	}
	generated, deployed := volume(loginSecret), volume(credentialsSecret)
	keepLogin(&generated, &deployed)
	assert.Check(t, is.DeepEqual(deployed, generated), "volumes")
	if keepLogin(&generated, &corev1.PodSpec{}); !cmp.Equal(deployed, generated) {
		t.Error("a new Deployment gets another volume")
	}
	b.accepted.Refused = &openstack.Error{Reason: openstack.AuthenticationFailed, Message: "refused"}
	assert.NilError(t, b.sync(t))
	if controller, _ := hashes(t, b); len(controller) > 0 {
		t.Errorf("hashes before the login are %v", controller)
	}
}

// TestWorkloadsWaitForCloudConfOfTheOperator checks that workloads start only with the final
// content, so that an upgrade from an earlier operator rolls them out once. Until OpenStack accepts
// the credentials, the operator writes nothing.
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
	}{
		"standalone, none":               {flavour.Standalone, nil, nil},
		"standalone, own":                {flavour.Standalone, own, nil},
		"standalone, earlier":            {flavour.Standalone, earlier, nil},
		"HyperShift, none":               {flavour.HyperShift, nil, nil},
		"HyperShift, own":                {flavour.HyperShift, own, own},
		"HyperShift, earlier guest":      {flavour.HyperShift, earlier, own},
		"HyperShift, earlier controller": {flavour.HyperShift, own, earlier},
		"HyperShift, earlier":            {flavour.HyperShift, earlier, earlier},
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
			assert.Check(t, !b.config.written(),
				"workloads start before the operator has determined the content")
			b.accepted.Refused = &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
			b.writes()
			if err := b.sync(t); err != nil || b.config.written() || len(b.writes()) > 0 {
				t.Errorf("before the login, workloads start: %v (%v)", b.config.written(), err)
			}
			b.accepted.Refused = nil
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
	assert.Check(t, d.Name == "cinder.csi.openstack.org" && d.ConditionPrefix == "OpenStackCinder",
		"the driver is %s with prefix %s", d.Name, d.ConditionPrefix)
	p := flavour.Standalone.Namespaces("x", d.Namespace)
	assert.Check(t, p.Guest == "openshift-cluster-csi-drivers", "the operands are in %s", p.Guest)
}
