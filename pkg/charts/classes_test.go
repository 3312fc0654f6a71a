package charts

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// generated returns classes of each name with each type and each option.
func generated(kind choice.Kind) (all []storagev1.StorageClass) {
	types := []string{"", "nvme", "Gold_SSD", "Gold & Fast", "日本", `a*?[b]\c`, "[d"}
	names := []string{"own", choice.ClassPrefix(kind) + "own"}
	for _, one := range types[1:] {
		names = append(names, choice.ClassPrefix(kind)+choice.PlainName(one),
			choice.HashedName(kind, one))
	}
	options := []map[string]string{
		{},
		{"availability": "nova"},
		{"csi.storage.k8s.io/fstype": "xfs"},
		{"csi.storage.k8s.io/provisioner-secret-name": "a"},
		{"unknown": "a"},
	}
	if kind == choice.Manila {
		options = []map[string]string{
			{},
			{"nfs-shareClient": "10.0.0.0/8"},
			{"appendShareMetadata": `{"a": "b"}`},
			{"unknown": "a"},
			{"shareNetworkID": "5a5a5a5a-0000-4000-8000-000000000001", "autoTopology": "true"},
		}
	}
	for _, name := range names {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			continue // no class has such a name
		}
		for _, one := range types {
			for i, parameters := range options {
				class := storagev1.StorageClass{
					ObjectMeta: metav1.ObjectMeta{Name: name}, Parameters: maps.Clone(parameters),
				}
				if one != "" {
					class.Parameters["type"] = one
				}
				if i > 0 {
					class.ReclaimPolicy = new(corev1.PersistentVolumeReclaimRetain)
					class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate)
					class.MountOptions = []string{"noatime"}
				}
				all = append(all, class)
			}
		}
	}
	return all
}

func entriesOf(
	t *testing.T, kind choice.Kind, given ...storagev1.StorageClass,
) (entries []any, remarks string) {
	t.Helper()
	v, err := New()
	assert.NilError(t, err)
	v.AddClasses(kind, given)
	driver, _ := v.content[lower(kind)].(map[string]any)
	spec, _ := driver["spec"].(map[string]any)
	document := maps.Clone(spec)
	if document == nil {
		document = map[string]any{}
	}
	document["apiVersion"], document["kind"] = choice.APIVersion, kind
	text, err := yaml.Marshal(document)
	assert.NilError(t, err)
	config, faults := choice.Parse(kind, string(text), flavour.Of(false))
	assert.Check(t, is.Len(faults, 0), "%s", text)
	entries, _ = spec["classes"].([]any)
	assert.Check(t, is.Len(classes.NamesOf(kind, "").Unused(config, nil), 0), "%s", text)
	return entries, strings.Join(v.Remarks(), "\n")
}

// A class whose name the operator gives its type itself has an entry without a name.
func TestEntriesOfClassesAreAccepted(t *testing.T) {
	t.Parallel()
	for _, kind := range []choice.Kind{choice.Cinder, choice.Manila} {
		all := generated(kind)
		assert.Check(t, len(all) > 150)
		for _, class := range all {
			name := fmt.Sprint(kind, class.Name, class.Parameters)
			entries, remarks := entriesOf(t, kind, class)
			isOwn := choice.IsOwnName(kind, class.Name, class.Parameters["type"])
			isLeft := strings.Contains(remarks, "the class stays yours")
			_, isUnknown := class.Parameters["unknown"]
			assert.Check(t, is.Equal(isLeft, isUnknown && class.Name == "own"), "%s: %s", name, remarks)
			assert.Check(t, !strings.Contains(remarks, "not taken over"), "%s: %s", name, remarks)
			if isLeft {
				continue
			}
			assert.Assert(t, is.Len(entries, 1), "%s: %s", name, remarks)
			_, isNamed := entries[0].(map[string]any)["name"]
			assert.Check(t, is.Equal(isNamed, !isOwn), name)
			isKept := strings.Contains(remarks, "keep it when you remove the release")
			assert.Check(t, is.Equal(isKept, class.Name != "own" && isNamed), name)
		}
		// As no cluster has them: several of a name.
		_, remarks := entriesOf(t, kind, all[:50]...)
		assert.Check(t, !strings.Contains(remarks, "classes["), remarks)
	}
}

// A class that an operator would refuse does not take the others with it.
func TestRefusedClassLeavesTheOthers(t *testing.T) {
	t.Parallel()
	given := []storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "standard-csi"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "one"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "two"}},
	}
	entries, remarks := entriesOf(t, choice.Cinder, given...)
	assert.Check(t, is.Len(entries, 2), remarks)
	for _, want := range []string{
		"StorageClass standard-csi: It is not taken over: name: Invalid value", "StorageClass one: It is",
	} {
		assert.Check(t, slices.ContainsFunc(strings.Split(remarks, "\n"), func(line string) bool {
			return strings.HasPrefix(line, want)
		}), remarks)
	}
}
