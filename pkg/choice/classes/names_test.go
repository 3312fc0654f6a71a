package classes

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

func names() Names {
	return NamesOf(choice.Manila, "manila.csi.openstack.org")
}

func classOf(name, shareType string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: name},
		Provisioner: names().Provisioner,
		Parameters:  map[string]string{TypeParameter: shareType},
	}
}

func TestClassNameOfOneType(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("long_", 60)
	for _, test := range []struct{ name, shareType, want string }{
		{"as it is", "default", "csi-manila-default"},
		{"digits and dots", "gold.2", "csi-manila-gold.2"},
		{"upper case", "GOLD", "csi-manila-gold"},
		{"underscore", "tripleo_ceph_nfs", "csi-manila-tripleo-ceph-nfs"},
		{"space", "my type", "csi-manila-my-type-7b620ffc"},
		{"colon", "a:b", "csi-manila-a-b-6783a31e"},
		{"leading dash", "-a", "csi-manila--a"},
		{"trailing dash", "a-", "csi-manila-a-9baf4407"},
		{"leading dot", ".a", "csi-manila-a-36797c3a"},
		{"trailing dot", "a.", "csi-manila-a-5ab640fa"},
		{"unicode", "größe", "csi-manila-gr-e-d353a267"},
		{"nothing readable", "日本", "csi-manila-cf2abf0c"},
		{"empty", "", "csi-manila-e3b0c442"},
		{"too long", long, "csi-manila-" + strings.Repeat("long-", 46) + "lon-3aace5fb"},
	} {
		got := names().Of([]string{test.shareType}, nil)[test.shareType]
		assert.Check(t, is.Equal(got, test.want), test.name)
		assert.Check(t, is.Len(validation.IsDNS1123Subdomain(got), 0), "faults of %q", got)
	}
}

// Each type is listed twice.
func TestClassNamesOfMany(t *testing.T) {
	t.Parallel()
	const plain = "csi-manila-foo-bar"
	hashed := names().Hashed
	mimic := strings.TrimPrefix(hashed("foo_bar"), names().Prefix) // as the class of another type
	foreign := classOf(plain, "foo-bar")
	foreign.Provisioner = "other.example.com"
	type named = map[string]string
	type classes = []*storagev1.StorageClass
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // to be repeatable
	for name, test := range map[string]struct {
		existing classes
		want     named
	}{
		"the type that is spelled like the name has it": {nil, named{
			"foo-bar": plain, "foo_bar": hashed("foo_bar"), "Foo-Bar": hashed("Foo-Bar"),
		}},
		"none is spelled like the name": {nil, named{
			"foo_bar": hashed("foo_bar"), "Foo-Bar": hashed("Foo-Bar"),
		}},
		"the first keeps its class when others come": {classes{classOf(plain, "foo_bar")}, named{
			"foo_bar": plain, "foo-bar": hashed("foo-bar"), "Foo-Bar": hashed("Foo-Bar"),
		}},
		"a class with a hash stays when the others are gone": {
			classes{classOf(hashed("foo_bar"), "foo_bar")}, named{"foo_bar": hashed("foo_bar")},
		},
		"another provisioner holds the plain name": {
			classes{foreign}, named{"foo-bar": hashed("foo-bar")},
		},
		"a class of a type that is gone holds the plain name": {
			classes{classOf(plain, "FOO_BAR")}, named{"foo-bar": hashed("foo-bar")},
		},
		"a type has the name of the class of another type": {nil, named{
			"foo-bar": plain, "foo_bar": hashed("foo_bar"), mimic: hashed(mimic),
		}},
		"one":  {nil, named{"gold": "csi-manila-gold"}},
		"none": {nil, named{}},
	} {
		types := slices.Repeat(slices.Sorted(maps.Keys(test.want)), 2)
		for range 10 {
			random.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
			assert.Assert(t, is.DeepEqual(test.want, names().Of(types, ByName(test.existing))), name)
		}
	}
}

// TestClassNamesFollowRules checks rules that apply to all sets of types, with random sets.
func TestClassNamesFollowRules(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // to be repeatable
	alphabet := []rune("abAB01-_.: ß\n")
	for range 2000 {
		types := make([]string, random.IntN(8))
		for i := range types {
			letters := make([]rune, random.IntN(4))
			for j := range letters {
				letters[j] = alphabet[random.IntN(len(alphabet))]
			}
			types[i] = strings.Repeat(string(letters), 1+random.IntN(2)*random.IntN(120))
		}
		// Some types come later than the others, which have their classes by then.
		first := types[:random.IntN(len(types)+1)]
		existing := made(names().Of(first, nil))
		got := names().Of(types, existing)
		taken := map[string]string{}
		for shareType, name := range got {
			assert.Assert(t, is.Len(validation.IsDNS1123Subdomain(name), 0), "%q of %q", name, shareType)
			other, ok := taken[name]
			assert.Assert(t, !ok, "%q and %q both get the name %q", shareType, other, name)
			taken[name] = shareType
		}
		for name, class := range existing {
			assert.Equal(t, got[class.Parameters[TypeParameter]], name, "it moves when others come")
		}
		shuffled := slices.Clone(types)
		random.Shuffle(len(shuffled),
			func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		assert.DeepEqual(t, got, names().Of(shuffled, existing)) // in any order
		assert.DeepEqual(t, got, names().Of(types, made(got)))   // once the classes exist
	}
}

// made returns the classes with these names.
func made(named map[string]string) map[string]*storagev1.StorageClass {
	classes := map[string]*storagev1.StorageClass{}
	for shareType, name := range named {
		classes[name] = classOf(name, shareType)
	}
	return classes
}
