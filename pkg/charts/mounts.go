package charts

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// ReaderOf reads files of a container. Content returns that of a key in a Secret or a ConfigMap.
func ReaderOf(
	mounts []corev1.VolumeMount, volumes []corev1.Volume,
	content func(v corev1.Volume, key string) ([]byte, error),
) Reader {
	mounts = slices.SortedFunc(slices.Values(mounts), func(a, b corev1.VolumeMount) int {
		return len(b.MountPath) - len(a.MountPath)
	})
	return func(name string) ([]byte, error) {
		absent := errors.New("the file is in the image, or does not exist")
		for _, m := range mounts {
			key, inside := strings.CutPrefix(path.Clean(name), strings.TrimSuffix(m.MountPath, "/"))
			if !inside || key != "" && key[0] != '/' {
				continue
			}
			key = strings.TrimPrefix(path.Join(m.SubPath, key), "/")
			i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
			if i < 0 {
				break
			}
			v := volumes[i]
			if v.HostPath != nil {
				return nil, fmt.Errorf("it is the file %s on the nodes", path.Join(v.HostPath.Path, key))
			}
			for _, item := range append(ptr.Deref(v.Secret, corev1.SecretVolumeSource{}).Items,
				ptr.Deref(v.ConfigMap, corev1.ConfigMapVolumeSource{}).Items...) {
				if item.Path == key {
					key = item.Key
					break
				}
			}
			text, err := content(v, key)
			if err == nil && len(text) == 0 {
				err = absent
			}
			return text, err
		}
		return nil, absent
	}
}

// usual are defaults of the chart of Cinder, with the folder of versions before 1.28.
const usual = `
csi: {plugin: {
  volumes: [{name: cacert, hostPath: {path: /etc/cacert}}],
  volumeMounts: [{name: cacert, mountPath: /etc/cacert}, {name: cloud-config,
    mountPath: /etc/config}, {name: cloud-config, mountPath: /etc/kubernetes}]}}
secret: {filename: cloud.conf}`

// addFiles adds the login in a Secret that the chart creates from values.
func (v *Values) addFiles(values map[string]any) error {
	var base map[string]any
	var of struct {
		CSI struct {
			Plugin struct {
				Volumes      []corev1.Volume
				VolumeMounts []corev1.VolumeMount
			}
		}
		Secret struct {
			Enabled        bool
			Name, Filename string
			Data           map[string]string
		}
	}
	_ = kyaml.Unmarshal([]byte(usual), &base)
	if text, err := kyaml.Marshal(merged(base, values)); err == nil {
		_ = kyaml.Unmarshal(text, &of) // wrong types have no equals
	}
	plugin, secret := of.CSI.Plugin, of.Secret
	read := ReaderOf(plugin.VolumeMounts, append(plugin.Volumes, corev1.Volume{Name: "cloud-config"}),
		func(v corev1.Volume, key string) ([]byte, error) {
			if v.Name != "cloud-config" {
				return nil, fmt.Errorf("it is in volume %s, and not in the values", v.Name)
			}
			return []byte(secret.Data[key]), nil
		})
	name := secret.Filename
	text, err := read("/etc/config/" + name)
	if err != nil {
		text, err = read("/etc/kubernetes/" + name)
	}
	for key, only := range secret.Data {
		if err != nil && (key == name || len(secret.Data) == 1) {
			text = []byte(only)
			v.Remark("Cinder: secret.data", "The login is that of key %s. The driver reads %s, and %v.",
				key, name, err)
		}
	}
	if v.logins[choice.Cinder] != nil { // a manifest of a Secret contains it
		return nil
	}
	if len(text) == 0 || !secret.Enabled {
		if secret.Name != "" && len(secret.Data) == 0 {
			name += " of Secret " + secret.Name
		}
		v.NoLogin("pass a copy of %s to check --values -f, or %s.", name, AddLogin)
		return nil
	}
	return v.AddConf("secret.data", [][]byte{text}, read)
}
