package manila

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestNodesMountSharesByChosenAddresses(t *testing.T) {
	t.Parallel()
	b := newClassBench(t, chosen("exportLocations: fd00::/64\n"))
	nodes := &appsv1.DaemonSet{}
	pod := &nodes.Spec.Template
	pod.Spec.Containers = []corev1.Container{{Name: "other"}, {Name: driverContainer}}
	change := exportLocations(b.topology.choices).DaemonSet
	assert.NilError(t, change(nil, nodes))
	driver := pod.Spec.Containers[1]
	assert.Check(t, is.DeepEqual(driver.Args,
		[]string{"--runtime-config-file=/etc/manila-csi/config.json"}))
	assert.Check(t, is.Equal(driver.VolumeMounts[0].MountPath, "/etc/manila-csi"))
	file := pod.Spec.Volumes[0].DownwardAPI.Items[0]
	assert.Check(t, is.Equal(file.Path, "config.json"))
	assert.Check(t, is.Equal(file.FieldRef.FieldPath,
		"metadata.annotations['csi.openstack.org/runtime-config']"))
	assert.Check(t, is.Equal(pod.Annotations["csi.openstack.org/runtime-config"],
		`{"nfs":{"matchExportLocationAddress":"fd00::/64"}}`))
	assert.Check(t, is.Len(pod.Spec.Containers[0].Args, 0))

	b.choose(t, "")
	nodes = &appsv1.DaemonSet{}
	assert.NilError(t, change(nil, nodes))
	assert.Check(t, is.DeepEqual(nodes, &appsv1.DaemonSet{}))
}
