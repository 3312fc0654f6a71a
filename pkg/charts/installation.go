package charts

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// protocols returns the CSIDriver of the protocol that Manila's driver serves here, and an error if
// values of the chart serve only others.
func (v *Values) protocols(values map[string]any) (nfs storagev1.CSIDriverSpec, err error) {
	if name, _ := values["driverName"].(string); name != "" && name != "manila.csi.openstack.org" {
		return nfs, fmt.Errorf("the driver has the name %s, which PersistentVolumes keep: keep this "+
			"installation", name)
	}
	all, _ := values["shareProtocols"].([]any)
	isServed := len(all) == 0
	for _, one := range all {
		fields, _ := one.(map[string]any)
		if protocol, _ := fields["protocolSelector"].(string); !strings.EqualFold(protocol, "NFS") {
			v.Remark("Manila: shareProtocols", "%s is not served here: in place of removing the other "+
				"release, let it serve only this protocol", protocol)
			continue
		}
		isServed = true
		if policy, _ := fields["fsGroupPolicy"].(string); policy != "" {
			nfs.FSGroupPolicy = new(storagev1.FSGroupPolicy(policy))
		}
		dir, _ := lookUp(fields, "fwdNodePluginEndpoint.dir").(string)
		if kubelet, _, found := strings.Cut(dir, "/plugins/"); found && kubelet != "/var/lib/kubelet" {
			v.Set(choice.Manila, "kubeletDir", kubelet, "Manila: shareProtocols")
		}
		if fields["compatibilitySettings"] != nil {
			v.Remark("Manila: shareProtocols", "compatibilitySettings has no equal")
		}
	}
	if !isServed {
		return nfs, errors.New("it serves only CephFS, which no driver here does: keep this installation")
	}
	return nfs, nil
}

// AddRuntimeConfig adds what a file with the runtime configuration of Manila's driver says.
func (v *Values) AddRuntimeConfig(text []byte) {
	var config struct {
		NFS struct{ MatchExportLocationAddress string }
	}
	if err := kyaml.Unmarshal(text, &config); err != nil {
		v.Remark("Manila: runtime configuration", "The driver cannot read it.")
		return
	}
	network := config.NFS.MatchExportLocationAddress
	if address, err := netip.ParseAddr(network); err == nil {
		network = netip.PrefixFrom(address, address.BitLen()).String()
	}
	if network != "" {
		v.Set(choice.Manila, "manila.spec.exportLocations", network, "Manila: runtime configuration")
	}
}

// isOn returns a boolean value of a chart, or its default.
func isOn(values map[string]any, name string, usual bool) bool {
	if on, found := lookUp(values, name).(bool); found {
		return on
	}
	return usual
}

// DefaultSnapshots is the annotation of a default VolumeSnapshotClass, Snapshots the name of that
// of Cinder's operator, and TwoDefaults what is wrong with another one.
const (
	DefaultSnapshots = "snapshot.storage.kubernetes.io/is-default-class"
	Snapshots        = "standard-csi"
	TwoDefaults      = "If several are the default, snapshots that name none fail. Remove the " +
		"annotation " + DefaultSnapshots + " from all but one"
)

// unknown matches what a strict decoder says about a field.
var unknown = regexp.MustCompile(`unknown field "([^"]*)"`)

func (v *Values) classesOf(values map[string]any) (all []storagev1.StorageClass) {
	if isOn(values, "storageClass.enabled", true) {
		for _, policy := range []corev1.PersistentVolumeReclaimPolicy{"Delete", "Retain"} {
			name, class := strings.ToLower(string(policy)), storagev1.StorageClass{ReclaimPolicy: &policy}
			class.Name = "csi-cinder-sc-" + name
			if isOn(values, "storageClass."+name+".isDefault", false) {
				class.Annotations = map[string]string{choice.DefaultAnnotation: "true"}
			}
			all = append(all, class)
		}
	}
	custom, _ := lookUp(values, "storageClass.custom").(string)
	for text := range strings.SplitSeq("\n"+custom, "\n---") {
		var class storagev1.StorageClass
		_ = kyaml.Unmarshal([]byte(text), &class) // what is no object has no kind
		switch about := class.Kind + " " + class.Name; class.Kind {
		case "":
		case "StorageClass":
			all = append(all, class)
			err := kyaml.UnmarshalStrict([]byte(text), &class)
			if found := unknown.FindStringSubmatch(fmt.Sprint(err)); found != nil {
				v.Remark(about, "Kubernetes ignores its %s, which is no field of a StorageClass. Its "+
					"reclaimPolicy is %s.", found[1], ptr.Deref(class.ReclaimPolicy, "Delete"))
			}
		case "VolumeSnapshotClass":
			v.Remark(about, "It stays yours: keep it.")
			if class.Annotations[DefaultSnapshots] == "true" {
				v.Remark(about+", "+Snapshots+" of the operator", TwoDefaults+".")
			}
		default:
			v.Remark("Cinder: storageClass.custom", "%s %s goes with the release of the chart: create it "+
				"again", class.Kind, class.Name)
		}
	}
	return all
}
