package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// maxFile is the maximum size of a file with values, in bytes.
const maxFile = 1 << 20

// AddFile adds the equals of a file with values of one of the charts, which tells which one, of a
// cloud.conf, or of the manifest of a Secret with a login. What the values do not say is in the
// templates of the chart.
func (v *Values) AddFile(text []byte) error {
	trees, err := position.Trees(position.Substituted(text), maxFile)
	trees = position.Objects(trees)
	defer v.addUnseen()
	if hasSecrets, err := v.addSecretFiles(trees); hasSecrets || err != nil {
		return cmp.Or(err, v.addParts(text, trees, true))
	}
	if strings.HasPrefix(position.Recognize(text, "").What, position.Settings) {
		return v.AddConf("the file", [][]byte{text}, func(string) ([]byte, error) {
			return nil, errors.New("this file is on the nodes")
		})
	}
	if err != nil {
		if invalid := position.FirstInvalid(text, nil); instead(text) != "" {
			return noValues(text, nil)
		} else if invalid.Line > 0 {
			return fmt.Errorf("the file %v", invalid)
		}
		return fmt.Errorf("the file %w", err)
	}
	if len(trees) == 0 {
		return v.addValues(part{}) // only defaults
	}
	return v.addParts(text, trees, false)
}

// addUnseen adds a remark about what a file cannot contain that has only the login of a driver.
func (v *Values) addUnseen() {
	for _, kind := range []choice.Kind{choice.Cinder, choice.Manila} {
		if isOn(v.content, lower(kind)+".enabled", false) && !v.added[kind] {
			v.Remark(title(kind), "The file cannot show cluster ID, topology, CSIDriver and pods, so "+
				"defaults apply: new volumes get another ID, and pods may lose zones or files. To keep "+
				"them, use what `kubectl openstack-csi check --values` prints in the cluster.")
		}
	}
}

// addParts adds the equals of all values in documents, of which a Secret may have told the login.
func (v *Values) addParts(text []byte, trees []*yaml.Node, hasLogin bool) error {
	var found []part
	holders, others := position.Holders(trees)
	for _, tree := range others {
		found = append(found, v.within(tree, holders)...)
	}
	for _, h := range holders {
		if !h.IsUsed {
			texts := yaml.Node{Kind: yaml.SequenceNode, Content: h.Texts()}
			tree := yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{
				{Value: "kind"}, {Value: h.Kind}, {Value: "values"}, &texts,
			}}
			found = append(found, v.within(&tree, nil)...)
		}
	}
	if len(found) == 0 && !hasLogin {
		return noValues(text, holders)
	}
	for _, one := range found {
		if err := v.addValues(one); err != nil {
			return err
		}
	}
	return nil
}

// addSecretFiles adds the logins in manifests of Secrets: a cloud.conf, or the options of Manila's
// driver. It returns whether there is one.
func (v *Values) addSecretFiles(trees []*yaml.Node) (found bool, err error) {
	holders, _ := position.Holders(trees)
	for _, h := range holders {
		data := map[string][]byte{}
		for key, text := range h.Data() {
			data[key] = []byte(text.Value)
		}
		read := func(file string) ([]byte, error) {
			if content, found := data[path.Base(file)]; found {
				return content, nil
			}
			return nil, errors.New("it is not in the Secret")
		}
		if data["os-authURL"] != nil {
			v.Set(choice.Manila, "manila.enabled", true, "")
			found, err = true, cmp.Or(err, v.AddSecret("the Secret", data, read))
		}
		for _, key := range slices.Sorted(maps.Keys(data)) {
			if strings.HasPrefix(position.Recognize(data[key], "").What, position.Settings) {
				found, err = true, cmp.Or(err, v.AddConf("key "+key, [][]byte{data[key]}, read))
			}
		}
	}
	return found, err
}

// part is what a file contains for a chart. The name of what it is in may tell which one.
type part struct {
	chart  string
	values map[string]any
}

// chartNames returns the names of the charts.
func chartNames() []string { return []string{"openstack-cinder-csi", "openstack-manila-csi"} }

// within returns values of the charts in a document: objects or a file of a tool that installs
// them, or values.
func (v *Values) within(tree *yaml.Node, holders []*position.Holder) (found []part) {
	rest := maxFile // of texts, which aliases repeat
	position.ChartValues{
		Charts: chartNames(), Holders: holders,
		Tree: func(scalar *yaml.Node, _ string) *yaml.Node {
			rest -= len(scalar.Value)
			return position.InnerTree(scalar, rest)
		},
		Are: func(values *yaml.Node, chart string) bool {
			return slices.Contains(chartNames(), chart) || len(v.known(values, chart)) > 0
		},
		Add: func(layers []*yaml.Node, chart string) {
			release := len(found)
			for _, values := range layers {
				for _, one := range v.known(values, chart) {
					i := slices.IndexFunc(found[release:], func(before part) bool {
						return v.kindOf(before) == v.kindOf(one)
					})
					if i >= 0 {
						one.values = merged(found[release+i].values, one.values)
						found[release+i] = one
					} else {
						found = append(found, one)
					}
				}
			}
		},
		Elsewhere: func(key *yaml.Node) {
			v.Remark(key.Value, "What it names is not in this file, and is not taken over.")
		},
	}.Find(tree)
	if fields, isMap := position.Value(tree).(map[string]any); isMap && len(found) > 0 {
		v.Objects = append(v.Objects, fields)
	}
	switch {
	case len(found) > 0 || position.Child(tree, "kind") != nil:
		return found
	case tree.Kind == yaml.MappingNode && len(tree.Content) == 0:
		return []part{{}} // only defaults
	}
	return v.known(tree, "")
}

// known returns the values of a chart that a mapping is, or those below it, as of a chart that
// contains others under names of its own.
func (v *Values) known(tree *yaml.Node, chart string) (found []part) {
	values, _ := position.Value(tree).(map[string]any)
	values = merged(nil, values) // without null, which is a default
	if slices.Contains(chartNames(), chart) || v.fit(values, chart) {
		return []part{{chart, values}}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if below := position.Child(tree, name); below != nil && below.Kind == yaml.MappingNode &&
			len(below.Content) > 0 {
			for _, one := range v.known(below, "") {
				delete(one.values, "enabled") // the condition of the other chart
				found = append(found, part{cmp.Or(one.chart, name), one.values})
			}
		}
	}
	return found
}

// fit returns whether most fields at the top are values of one of the charts. A chart with another
// name may have one of them, too.
func (v *Values) fit(values map[string]any, chart string) bool {
	least := 1
	if chart != "" {
		least++
	}
	for _, kind := range []choice.Kind{choice.Cinder, choice.Manila} {
		known, others := 0, 0
		for name, value := range values {
			switch more, less := v.count(kind, name, value); {
			case more > less:
				known++
			case less > 0:
				others++
			}
		}
		if known > others && known >= least {
			return true
		}
	}
	return false
}

// kindOf returns for which driver values are. The name of what they are in may tell the chart.
func (v *Values) kindOf(one part) choice.Kind {
	_, others := v.count(choice.Cinder, "", one.values)
	_, less := v.count(choice.Manila, "", one.values)
	isManila := less < others && one.chart != chartNames()[0]
	if isManila || strings.Contains(one.chart, "manila") {
		return choice.Manila
	}
	return choice.Cinder
}

// addValues adds the equals of values.
func (v *Values) addValues(one part) error {
	kind, values := v.kindOf(one), one.values
	if v.added[kind] {
		return fmt.Errorf("the file contains values of several releases for %s: pass those of one",
			title(kind))
	}
	v.added[kind] = true
	if err := v.AddChart(kind, values, nil); err != nil {
		return err
	}
	if kind == choice.Manila {
		spec, _ := v.protocols(values) // AddChart has returned its error
		v.AddCSIDriver(kind, spec)
		if v.logins[kind] == nil {
			v.NoLogin("it is in Secrets that StorageClasses name: %s.", AddLogin)
		}
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
