package classes

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Only a name that the operator gives a type itself is free after somebody deletes the class.
func TestEntryOfAnotherTypeIsToldTheRightOne(t *testing.T) {
	t.Parallel()
	n := NamesOf(choice.Cinder, "cinder.csi.openstack.org")
	for _, test := range []struct{ name, typeName, existing, provisioner, want string }{
		{"csi-cinder-nvme", "", "nvme", n.Provisioner, `Give the entry no name and type "nvme"`},
		{"csi-cinder-nvme", "ssd", "nvme", n.Provisioner, `Give the entry no name and type "nvme"`},
		{n.Hashed("a b"), "", "a b", n.Provisioner, `Give the entry no name and type "a b"`},
		{"csi-cinder-own", "", "nvme", n.Provisioner, `Give the entry this name and type "nvme"`},
		{"own", "", "nvme", n.Provisioner, `Give the entry this name and type "nvme"`},
		{"own", "ssd", "", n.Provisioner, `Give the entry this name and type ""`},
		{"own", "", "", "nfs.csi.k8s.io", "is of driver nfs.csi.k8s.io. Use another name"},
		{"csi-cinder-own", "", "", n.Provisioner, ""},
		{"csi-cinder-nvme", "nvme", "", n.Provisioner, "Remove the name"},
	} {
		class := &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: test.name}, Provisioner: test.provisioner,
			Parameters: map[string]string{TypeParameter: test.existing},
		}
		said := n.Taken(Class{
			Name: test.name, Type: openstack.Type{Name: test.typeName},
			Existing: strings.HasPrefix(test.name, n.Prefix),
		}, class)
		assert.Check(t, is.Contains(said, test.want), "%+v", test)
		assert.Check(t, said == "" == (test.want == "") && !strings.Contains(said, "Delete that"), said)
	}
	taken := n.Taken(Class{Name: "csi-cinder-nvme", Type: openstack.Type{Name: "nvme"}},
		&storagev1.StorageClass{Provisioner: n.Provisioner})
	assert.Check(t, is.Contains(taken, "Delete that StorageClass"))
}

// An entry has no effect if the StorageClasses are the same without it.
func TestEntriesWithoutEffectAreReported(t *testing.T) {
	t.Parallel()
	patterns := [][]string{nil, {}, {"gold"}, {"g*"}, {"tin"}, {choice.Exactly("[tin]")}, {"*"}}
	offers := [][]string{{}, {"gold"}, {"gold", "tin"}, {"g*", "[tin]"}}
	names := []string{"gold", "tin", "g*", "[tin]"} // of types, never patterns
	none, some := 0, 0
	for _, kind := range []choice.Kind{choice.Cinder, choice.Manila} {
		n := NamesOf(kind, "a")
		for at := range len(patterns) * len(patterns) * len(offers) * len(names) * 2 {
			pick := func(among int) int {
				defer func() { at /= among }()
				return at % among
			}
			config := &choice.Config{}
			config.Types.Include = patterns[pick(len(patterns))]
			config.Types.Exclude = patterns[pick(len(patterns))]
			offered := offers[pick(len(offers))]
			without := n.wanted(config, offered)
			own := choice.Class{ReclaimPolicy: "Retain"}
			config.Classes = []choice.NamedClass{{
				Type: names[pick(len(names))], Name: []string{"", "own"}[pick(2)], Class: own,
			}}
			unused := slices.ContainsFunc(n.Unused(config, typesOf(offered)), func(said string) bool {
				return strings.HasPrefix(said, fmt.Sprintf("classes[0].type: %q ", config.Classes[0].Type))
			})
			with := n.wanted(config, offered)
			assert.Check(t, unused == reflect.DeepEqual(with, without), "%s %+v of %v", kind, config,
				offered)
			if unused {
				none++
			} else {
				some++
			}
		}
	}
	assert.Check(t, none > 0 && some > 0)
}

func typesOf(names []string) map[string]openstack.Type {
	types := map[string]openstack.Type{}
	for _, name := range names {
		types[name] = openstack.Type{Name: name}
	}
	return types
}

func (n Names) wanted(config *choice.Config, offered []string) []Class {
	return n.Wanted(config, typesOf(offered), n.Of(offered, nil))
}
