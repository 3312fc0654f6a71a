package cinder

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// hostedConfigMap returns a ConfigMap in the namespace of the hosted control plane.
func hostedConfigMap(name string, data map[string]string) runtime.Object {
	return in(hosted, userObject(name, data))
}

// TestGuestClusterDoesNotChangeCloudConf checks the sources of cloud-conf on HyperShift: objects of
// the guest cluster have no effect, because its administrator must not configure the controllers.
// Both sides get the same content.
func TestGuestClusterDoesNotChangeCloudConf(t *testing.T) {
	t.Parallel()
	hostedCA := hostedConfigMap("openstack-cloud-config", keys{bundleKey: authority("ConfigMap's")})
	withSecretCA := credentials(hosted, keys{
		openstack.CloudsKey: clouds("openstack"), openstack.CAKey: authority("Secret's"),
	})
	for name, test := range map[string]struct {
		controller, guest, config objects
		want                      map[string]string
	}{
		"credentials alone": {
			want: keys{configKey: configText, topologyKey: "true"},
		},
		"a user's section": {
			controller: objects{hostedConfigMap(userConfigMap, keys{userConfigKey: userText})},
			want:       keys{configKey: configText + "\n" + userText, topologyKey: "true"},
		},
		"a user's topology": {
			controller: objects{hostedConfigMap(userConfigMap, keys{userTopologyKey: "false"})},
			want:       keys{configKey: configText, topologyKey: "false"},
		},
		"CA of the Secret": {
			controller: objects{withSecretCA},
			want: keys{
				configKey: configText + withCA, topologyKey: "true", bundleKey: authority("Secret's"),
			},
		},
		"CA of openstack-cloud-config": {
			controller: objects{hostedCA},
			want: keys{
				configKey: configText + withCA, topologyKey: "true", bundleKey: authority("ConfigMap's"),
			},
		},
		"CA of both": {
			controller: objects{withSecretCA, hostedCA},
			want: keys{
				configKey: configText + withCA, topologyKey: "true", bundleKey: authority("Secret's"),
			},
		},
		"of openstack-cloud-config the CA alone": {
			controller: objects{hostedConfigMap("openstack-cloud-config", keys{
				"cloud.conf": userText, "config": userText, "": userText,
			})},
			want: keys{configKey: configText, topologyKey: "true"},
		},
		"the guest's administrator": {
			guest: objects{userObject(userConfigMap, keys{
				userConfigKey: userText, userTopologyKey: "false",
			})},
			want: keys{configKey: configText, topologyKey: "true"},
		},
		"what the guest was installed with": {
			guest: objects{
				userObject("theirs", keys{"config": userText, bundleKey: authority("theirs")}),
				manilasCopy(),
			},
			controller: objects{
				hostedConfigMap("theirs", keys{"config": userText, bundleKey: authority("a namesake")}),
			},
			config: objects{infrastructureWith("theirs", "config")},
			want:   keys{configKey: configText, topologyKey: "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := hyperShift()
			if slices.Contains(test.controller, runtime.Object(withSecretCA)) {
				seed.ControlPlane = nil
			}
			seed.ControlPlane = append(seed.ControlPlane, test.controller...)
			seed.Guest = append(seed.Guest, test.guest...)
			seed.Config = test.config
			b := newFixture(t, seed)
			assert.NilError(t, b.sync(t))
			for _, side := range flavour.Sides() {
				assert.Check(t, is.DeepEqual(test.want, b.data(t, side)), "cloud-conf of the %s", side)
			}
			if got := b.condition(t, progressingType); got != "False AsExpected" || !b.config.written() {
				t.Errorf("%s is %q, written is %v", progressingType, got, b.config.written())
			}
		})
	}
}

// TestRequestsStayOnTheirSide checks that no request goes to the wrong side or to a namespace that
// the driver does not use.
func TestRequestsStayOnTheirSide(t *testing.T) {
	t.Parallel()
	b := newFixture(t, hyperShift())
	assert.NilError(t, b.sync(t))
	assert.Check(t, newSources(b.Cluster).infrastructures == nil,
		"the guest's Infrastructure is a source of the configuration")
	for side, want := range map[flavour.Side][]string{
		flavour.ControlPlane: {"configmaps", "secrets"},
		flavour.Guest:        {"configmaps", "storageclasses"},
	} {
		var resources []string
		for _, action := range b.client(side).Actions() {
			resources = append(resources, action.GetResource().Resource)
			namespace := b.Namespaces.On(side)
			if action.GetResource().Resource == "storageclasses" {
				namespace = ""
			}
			if action.GetNamespace() != namespace {
				t.Errorf("the %s side is asked to %s %s in namespace %q, want only %s",
					side, action.GetVerb(), action.GetResource().Resource, action.GetNamespace(), namespace)
			}
		}
		slices.Sort(resources)
		assert.Check(t, is.DeepEqual(want, slices.Compact(resources)),
			"resources that the %s side is asked for", side)
	}
}

// TestFailureOnOneSideDoesNotBlockTheOther checks that a failure on one side does not block the
// other, for a new cloud-conf and for a change.
func TestFailureOnOneSideDoesNotBlockTheOther(t *testing.T) {
	t.Parallel()
	for failing, want := range map[flavour.Side]string{
		flavour.ControlPlane: "writing ConfigMap clusters-a/cloud-conf " +
			"of the management cluster: refused",
		flavour.Guest: "writing ConfigMap openshift-cluster-csi-drivers/cloud-conf " +
			"of the guest cluster: refused",
	} {
		t.Run(string(failing), func(t *testing.T) {
			t.Parallel()
			b := newFixture(t, hyperShift())
			other := flavour.Sides()[1-slices.Index(flavour.Sides(), failing)]
			down := true
			for _, verb := range []string{"create", "update"} {
				b.client(failing).PrependReactor(verb, "configmaps", func(
					action clienttesting.Action,
				) (bool, runtime.Object, error) {
					object, ok := action.(clienttesting.UpdateAction).GetObject().(interface{ GetName() string })
					return down && ok && object.GetName() == configMap, nil, errors.New("refused")
				})
			}
			if err := b.sync(t); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			if b.config.written() || b.data(t, other) == nil {
				t.Errorf("written is %v, the other side has %v", b.config.written(), b.data(t, other))
			}
			assert.Check(t, is.Equal(b.condition(t, progressingType), "False SyncError"), progressingType)
			down = false
			if err := b.sync(t); err != nil || !b.config.written() {
				t.Errorf("later: written is %v, %v", b.config.written(), err)
			}
			down = true
			b.put(t, keys{userConfigKey: userText})
			if err := b.sync(t); err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			for _, side := range flavour.Sides() {
				if got := strings.Contains(b.data(t, side)[configKey], userText); got != (side == other) {
					t.Errorf("the %s side has the change: %v", side, got)
				}
			}
		})
	}
}

// TestTopologyOfEarlierRunStays checks that the topology that an earlier run wrote to the control
// plane side stays while the cloud is unreachable. The guest side has no effect, because its
// administrator can write it.
func TestTopologyOfEarlierRunStays(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		controller, guest, want string // "" is no cloud-conf
	}{
		"neither":                           {},
		"controller":                        {controller: "true", want: "true"},
		"guest":                             {guest: "true"},
		"both":                              {controller: "false", guest: "true", want: "false"},
		"controller, not of this operator":  {controller: "perhaps", guest: "true"},
		"both, neither is of this operator": {controller: "perhaps", guest: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := hyperShift()
			if test.controller != "" {
				seed.ControlPlane = append(seed.ControlPlane,
					cloudConf(hosted, keys{topologyKey: test.controller}))
			}
			if test.guest != "" {
				seed.Guest = append(seed.Guest,
					cloudConf(flavour.DefaultNamespace, keys{topologyKey: test.guest}))
			}
			b := newFixture(t, seed)
			b.cloud.fail(openstack.CloudUnreachable)
			assert.NilError(t, b.sync(t))
			if test.want == "" {
				assert.Check(t, is.Equal(b.condition(t, progressingType), "True WaitingForOpenStack"),
					progressingType)
				return
			}
			for _, side := range flavour.Sides() {
				assert.Check(t, is.Equal(b.data(t, side)[topologyKey], test.want),
					"%s of the %s", topologyKey, side)
			}
		})
	}
}
