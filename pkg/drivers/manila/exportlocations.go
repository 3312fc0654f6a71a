package manila

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

const (
	// runtimeConfig is the annotation whose value is the configuration that the driver reads at each
	// mount, and the volume that contains it as a file.
	runtimeConfig     = "runtime-config"
	runtimeConfigKey  = "csi.openstack.org/" + runtimeConfig
	runtimeConfigFile = "config.json"
	runtimeConfigDir  = "/etc/manila-csi"
)

// exportLocations tells node plugins by which addresses they mount shares. Only they read the
// configuration (cloud-provider-openstack, pkg/csi/manila/runtimeconfig). It is an annotation of
// the pods, so that a change replaces them and no other object is needed.
func exportLocations(choices *plugin.Choices) hook.Workload {
	return hook.Workload{DaemonSet: func(_ *opv1.OperatorSpec, d *appsv1.DaemonSet) error {
		network := choices.Config().ExportLocations
		if network == "" {
			return nil
		}
		content, err := json.Marshal(map[string]any{
			"nfs": map[string]string{"matchExportLocationAddress": network},
		})
		if err != nil {
			return err
		}
		template := &d.Spec.Template
		metav1.SetMetaDataAnnotation(&template.ObjectMeta, runtimeConfigKey, string(content))
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{
			Name: runtimeConfig,
			VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{
					Path: runtimeConfigFile,
					FieldRef: &corev1.ObjectFieldSelector{
						APIVersion: "v1", FieldPath: "metadata.annotations['" + runtimeConfigKey + "']",
					},
				}},
			}},
		})
		for i := range template.Spec.Containers {
			if one := &template.Spec.Containers[i]; one.Name == driverContainer {
				one.Args = append(one.Args, "--runtime-config-file="+runtimeConfigDir+"/"+runtimeConfigFile)
				one.VolumeMounts = append(one.VolumeMounts, corev1.VolumeMount{
					Name: runtimeConfig, MountPath: runtimeConfigDir, ReadOnly: true,
				})
			}
		}
		return nil
	}}
}
