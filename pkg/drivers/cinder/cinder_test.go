package cinder

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/clustertest"
	"github.com/openstack-csi/csi-operator/test/plugintest"
)

// Conditions and events have these names.
func TestComponentsOfTheDriver(t *testing.T) {
	t.Parallel()
	b, driver := newFixture(t, clustertest.Seed{}), Driver()
	plugintest.Check(t, driver, b.dependencies)
	components, err := driver.Setup(b.dependencies)
	assert.NilError(t, err)
	assert.Check(t, !components.StartWhenAvailable && !components.Ready())
	names := []string{driver.ConditionPrefix, components.Probe.Name()}
	for _, c := range components.Controllers {
		names = append(names, c.Name())
	}
	for _, h := range slices.Concat(components.ControllerHooks, components.NodeHooks) {
		assert.Check(t, len(h.Informers) > 0)
		for _, input := range h.RolloutInputs {
			names = append(names, input.Kind+" "+input.Name)
		}
	}
	assert.Check(t, is.DeepEqual([]string{
		"OpenStackCinder", "CinderCloudProbe", "OpenStackCinderConfigSync",
		"CinderStorageClassController", "Secret openstack-cloud-credentials",
		"ConfigMap cloud-conf", "ConfigMap cloud-conf",
	}, names))
}

// hashes returns the annotations that inputs add to pods of the controller and of the nodes.
func hashes(t *testing.T, b *fixture) (controller, node map[string]string) {
	t.Helper()
	var key hook.Key
	key.Set(make([]byte, hook.KeySize))
	var deployment appsv1.Deployment
	var daemonSet appsv1.DaemonSet
	controllers := hook.RollOutDeployment(&key, func() *appsv1.Deployment { return nil }, b.events,
		b.config.controllerHooks())
	assert.NilError(t, controllers.Deployment(nil, &deployment))
	nodes := hook.RollOutDaemonSet(&key, func() *appsv1.DaemonSet { return nil }, b.events,
		b.config.nodeHooks())
	assert.NilError(t, nodes.DaemonSet(nil, &daemonSet))
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
	expect := func(what string, inputs, nodes int) {
		t.Helper()
		assert.NilError(t, b.sync(t))
		controllers, ofNodes := hashes(t, b)
		maps.DeleteFunc(before, func(key, hash string) bool { return controllers[key] == hash })
		maps.DeleteFunc(node, func(key, hash string) bool { return ofNodes[key] == hash })
		assert.Check(t, is.Equal(len(before), inputs), "%s: changes of the controller", what)
		assert.Check(t, is.Equal(len(node), nodes), "%s: changes on nodes", what)
		before, node = controllers, ofNodes
	}
	b.cloud.fail(openstack.AuthenticationFailed)
	b.advance(grace)
	expect("the cloud refuses the credentials", 0, 0)
	rotated := strings.ReplaceAll(cloudsYAML("openstack"), password, "another")
	b.putCredentials(t, keys{clouds.Key: rotated})
	expect("other credentials", 1, 0)
	b.putCredentials(t, keys{clouds.Key: rotated + "\n# text", "clouds.conf": "text"})
	expect("another text with the same login", 0, 0)
	b.put(t, keys{userConfigKey: userText})
	expect("another configuration", 1, 1)
	insecure := strings.Replace(rotated, "{auth:", "{verify: false, auth:", 1)
	b.putCredentials(t, keys{clouds.Key: insecure})
	expect("certificates are not verified", 2, 1)
}

// On HyperShift both clusters contain a cloud-conf. The hash of the login also waits for the login
// and for cloud-conf, because the pods read both when they start.
func TestHashesWaitForWhatThePodsRead(t *testing.T) {
	t.Parallel()
	login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: hosted, Name: loginSecret}}
	for name, test := range map[string]struct {
		side    flavour.Side
		missing runtime.Object
		want    [2]int // of the controller and of nodes
	}{
		"login":                   {flavour.ControlPlane, login, [2]int{1, 1}},
		"cloud-conf":              {flavour.ControlPlane, cloudConf(hosted, nil), [2]int{0, 1}},
		"cloud-conf of the guest": {flavour.Guest, written("true"), [2]int{2, 0}},
	} {
		b := newFixture(t, hyperShift())
		expect := func(want [2]int, when string) {
			controller, node := hashes(t, b)
			assert.Check(t, is.Equal([2]int{len(controller), len(node)}, want), "hashes %s", when)
		}
		expect([2]int{0, 0}, "before the first sync")
		assert.NilError(t, b.sync(t))
		expect([2]int{2, 1}, "after it")
		clustertest.Delete(t, b.client(test.side), test.missing)
		b.catchUp(t)
		expect(test.want, "without "+name)
	}
}

func TestIgnoredMicroversionIsNotRequired(t *testing.T) {
	t.Parallel()
	const ignored = "[BlockStorage]\nIGNORE-volume-microversion = yes\n"
	b := newFixture(t, hyperShift())
	for text, want := range map[string]openstack.Service{
		"": openstack.Cinder(),
		"[BlockStorage]\nrescan-on-resize = true\n":     openstack.Cinder(),
		"[Global]\nignore-volume-microversion = true\n": openstack.Cinder(),
		ignored + "ignore-volume-microversion = no\n":   openstack.Cinder(),
		ignored: openstack.Cinder().AnyMicroversion(),
		"# as earlier operators read it\n[BlockStorage]\nignore-volume-microversion: true\n": openstack.
			Cinder().AnyMicroversion(),
	} {
		b.put(t, keys{userConfigKey: text})
		got := b.config.sources.services()[1]
		assert.Check(t, is.Equal(got.String(), want.String()), "%q", text)
		assert.Check(t, is.Contains(fmt.Sprintf("%#v", got), "ignore-volume-microversion = true below "+
			"[BlockStorage] into key config of ConfigMap "), "%q", text)
	}
}

// The pods of an earlier release mount the driver Secret.
func TestControllerKeepsItsLoginUntilAnotherIsWritten(t *testing.T) {
	t.Parallel()
	volume := func(name string) corev1.PodSpec {
		source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}
		login := corev1.Volume{Name: loginVolume, VolumeSource: source}
		return corev1.PodSpec{Volumes: []corev1.Volume{{Name: "other"}, login}}
	}
	generated, deployed := volume(loginSecret), volume(credentialsSecret)
	keepLogin(&generated, &deployed)
	assert.Check(t, is.DeepEqual(deployed, generated), "volumes")
	keepLogin(&generated, &corev1.PodSpec{})
	assert.Check(t, is.DeepEqual(deployed, generated), "volumes of a new Deployment")
}

// An upgrade from an earlier operator rolls the workloads out once, with the final content.
func TestWorkloadsWaitForCloudConfOfTheOperator(t *testing.T) {
	t.Parallel()
	earlier := keys{configKey: "[Global]\nuse-clouds  = true\n", topologyKey: "true"}
	for name, existing := range map[string]objects{
		"new cluster": nil, "upgrade": {cloudConf(flavour.DefaultNamespace, earlier)},
	} {
		b := newFixture(t, standalone(existing...))
		assert.Check(t, !b.config.written(), "before the content is determined, %s", name)
		b.credentials.Refused = &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}
		b.writes()
		assert.NilError(t, b.sync(t), name)
		assert.Check(t, is.Len(b.writes(), 0), name)
		assert.Check(t, !b.config.written(), "before the login, %s", name)
		b.credentials.Refused = nil
		assert.NilError(t, b.sync(t), name)
		assert.Check(t, b.config.written(), "after the login, %s", name)
	}
}

func TestManifestsMountFilesOfCloudConf(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for role, login := range map[bundle.Role]string{
			bundle.ControllerWorkload: loginSecret + " " + loginKey,
			bundle.NodeWorkload:       credentialsSecret + " " + clouds.Key,
		} {
			if f == flavour.Kubernetes { // pods name no Secret of the administrator
				login = loginSecret + " " + loginKey
			}
			want := keys{
				mountedClouds: login, mountedCA: configMap + " " + bundleKey,
				"/etc/kubernetes/config/cloud.conf": configMap + " " + configKey,
			}
			pod := assetsOf[appsv1.DaemonSet](t, f, role)[0].Spec.Template.Spec
			assert.Check(t, is.DeepEqual(want, files(pod)), "files in the pods of %s, %s", role, f)
		}
	}
}

// assetsOf returns the generated objects of a role in a flavour.
func assetsOf[T any](tb testing.TB, f flavour.Flavour, role bundle.Role) []T {
	tb.Helper()
	loaded, err := bundle.Load(Driver().Assets, f)
	assert.NilError(tb, err)
	var found []T
	for _, asset := range loaded.Assets() {
		if asset.Role == role {
			var object T
			assert.NilError(tb, yaml.Unmarshal(asset.Data, &object), asset.Name)
			found = append(found, object)
		}
	}
	return found
}

// files returns the files in the driver's container, with the object and the key of each.
func files(pod corev1.PodSpec) map[string]string {
	ret := keys{}
	driver := slices.IndexFunc(pod.Containers, func(c corev1.Container) bool {
		return c.Name == "csi-driver"
	})
	for _, mount := range pod.Containers[driver].VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		secret := ptr.Deref(pod.Volumes[i].Secret, corev1.SecretVolumeSource{})
		config := ptr.Deref(pod.Volumes[i].ConfigMap, corev1.ConfigMapVolumeSource{})
		for _, item := range slices.Concat(secret.Items, config.Items) {
			ret[path.Join(mount.MountPath, item.Path)] = secret.SecretName + config.Name + " " + item.Key
		}
	}
	return ret
}
