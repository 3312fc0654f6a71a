package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	kyaml "sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
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

// maxFile is the maximum size of a file with values, in bytes.
const maxFile = 1 << 20

// AddFile adds the equals of a file with values of one of the charts, which tells which one, or of
// a cloud.conf. What the values do not say is in the templates of the chart.
func (v *Values) AddFile(text []byte) error {
	if strings.HasPrefix(position.Recognize(text, "").What, position.Settings) {
		return v.AddConf("the file", [][]byte{text}, func(string) ([]byte, error) {
			return nil, errors.New("this file is on the nodes")
		})
	}
	trees, err := position.Trees(text, maxFile)
	if err != nil {
		return errors.New("the file is no YAML with values of a chart")
	}
	if len(trees) == 0 {
		return v.addValues("", nil) // only defaults
	}
	var all []part
	for _, tree := range trees {
		all = append(all, v.within(position.Expanded(tree))...)
	}
	found := slices.DeleteFunc(slices.Clone(all), func(p part) bool {
		return len(p.values) == 0 && len(all) > 1 // may be those of another chart
	})
	if len(found) == 0 {
		return errors.New("no value of the charts is at the top level: pass the values of " +
			"cinder-csi-plugin or manila-csi-plugin")
	}
	for _, one := range found {
		if err := v.addValues(one.chart, one.values); err != nil {
			return err
		}
	}
	return nil
}

// part is what a file contains for a chart. The name of what it is in may tell which one.
type part struct {
	chart  string
	values map[string]any
}

// within returns values of the charts in an object, in a file of a tool that installs them, or in a
// file with values.
func (v *Values) within(tree *yaml.Node) (found []part) {
	rest := maxFile
	position.ChartValues{
		Fits: func(text *yaml.Node) bool { rest -= len(text.Value); return rest > 0 },
		Are:  func(n *yaml.Node) bool { return len(v.known(n)) > 0 },
		Add:  func(n *yaml.Node) { found = append(found, v.known(n)...) },
	}.Find(tree)
	if len(found) == 0 && position.Child(tree, "kind") == nil {
		return v.known(tree)
	}
	return found
}

// known returns values at the top level of a mapping, or one level below, as of a chart that
// contains others.
func (v *Values) known(tree *yaml.Node) (found []part) {
	values, isMap := position.Value(tree).(map[string]any)
	values = merged(nil, values) // without null, which is a default
	isKnown := func(fields map[string]any) bool {
		ofCinder, _ := v.count(choice.Cinder, "", fields)
		ofManila, _ := v.count(choice.Manila, "", fields)
		return ofCinder+ofManila > 0
	}
	if isKnown(values) || isMap && len(values) == 0 {
		return []part{{"", values}}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if fields, _ := values[name].(map[string]any); isKnown(fields) {
			found = append(found, part{name, fields})
		}
	}
	return found
}

// addValues adds the equals of values, of which the name of what they are in may tell the chart.
func (v *Values) addValues(name string, values map[string]any) error {
	kind := choice.Cinder
	_, others := v.count(kind, "", values)
	_, less := v.count(choice.Manila, "", values)
	if less < others || strings.Contains(name, "manila") {
		kind = choice.Manila
	}
	if lookUp(v.content, lower(kind)+".enabled") != nil {
		return fmt.Errorf("the file contains values of several releases for %s: pass those of one",
			title(kind))
	}
	if err := v.AddChart(kind, values, nil); err != nil {
		return err
	}
	if kind == choice.Manila {
		spec, _ := v.protocols(values) // AddChart has returned its error
		v.AddCSIDriver(kind, spec)
		v.NoLogin("It is in Secrets that StorageClasses name: add " +
			"--set-file=credentials.clouds=clouds.yaml.")
		return nil
	}
	v.AddCSIDriver(kind, storagev1.CSIDriverSpec{
		FSGroupPolicy: new(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
			storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
		},
	})
	v.AddClasses(kind, v.classesOf(values))
	return v.addFiles(values)
}

// isOn returns a boolean value of a chart, or its default.
func isOn(values map[string]any, name string, usual bool) bool {
	if on, found := lookUp(values, name).(bool); found {
		return on
	}
	return usual
}

// count returns how many values the chart of a driver has, and how many it does not have.
func (v *Values) count(kind choice.Kind, name string, value any) (known, unknown int) {
	below, isMap := value.(map[string]any)
	i := v.row(kind, name)
	switch {
	case i >= 0 && strings.HasPrefix(v.rows[i].Match(kind, name), "*"): // any chart may have it
		return 0, 0
	case i >= 0:
		return 1, 0
	case !isMap:
		return 0, 1
	}
	for step, child := range below {
		more, others := v.count(kind, strings.TrimPrefix(name+"."+step, "."), child)
		known, unknown = known+more, unknown+others
	}
	return known, unknown
}

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
		switch class.Kind {
		case "":
		case "StorageClass":
			all = append(all, class)
		case "VolumeSnapshotClass":
			v.Remark(class.Kind+" "+class.Name, "It stays yours: keep it.")
		default:
			v.Remark("Cinder: storageClass.custom", "%s %s goes with the release of the chart: create it "+
				"again", class.Kind, class.Name)
		}
	}
	return all
}

// addFiles adds the login in a Secret that the chart creates from values.
func (v *Values) addFiles(values map[string]any) error {
	name, _ := lookUp(values, "secret.filename").(string)
	data, _ := lookUp(values, "secret.data").(map[string]any)
	name = cmp.Or(name, "cloud.conf")
	text, _ := data[name].(string)
	for key, only := range data {
		if text == "" && len(data) == 1 {
			text, _ = only.(string)
			v.Remark("Cinder: secret.data", "The login is that of key %s. The driver reads %s, which is "+
				"missing.", key, name)
		}
	}
	if text == "" || !isOn(values, "secret.enabled", false) {
		if secret, _ := lookUp(values, "secret.name").(string); secret != "" && len(data) == 0 {
			name += " of Secret " + secret
		}
		v.NoLogin("It is not in the values: pass a copy of %s to check --values -f, or add "+
			"--set-file=credentials.clouds=clouds.yaml.", name)
		return nil
	}
	return v.AddConf("secret.data", [][]byte{[]byte(text)}, func(file string) ([]byte, error) {
		content, ok := data[path.Base(file)].(string)
		if !ok {
			return nil, errors.New("it is not in the values")
		}
		return []byte(content), nil
	})
}
