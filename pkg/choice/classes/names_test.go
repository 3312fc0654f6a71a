package classes

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// names returns the names of Manila.
func names() Names {
	return Names{Provisioner: "manila.csi.openstack.org", Prefix: "csi-manila-"}
}

func hashedName(typeName string) string { return names().Hashed(typeName) }

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
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := names().Of([]string{test.shareType}, nil)[test.shareType]
			assert.Check(t, got == test.want, "got %q, want %q", got, test.want)
			if faults := validation.IsDNS1123Subdomain(got); faults != nil {
				t.Errorf("%q is no name: %v", got, faults)
			}
		})
	}
}

func TestClassNamesOfMany(t *testing.T) {
	t.Parallel()
	const plain = "csi-manila-foo-bar"
	foreign := classOf(plain, "foo-bar")
	foreign.Provisioner = "other.example.com"
	for _, test := range []struct {
		name     string
		types    []string
		existing []*storagev1.StorageClass
		want     map[string]string
	}{
		{
			name:  "the type that is spelled like the name has it",
			types: []string{"foo_bar", "foo-bar", "Foo-Bar"},
			want: map[string]string{
				"foo-bar": plain, "foo_bar": hashedName("foo_bar"), "Foo-Bar": hashedName("Foo-Bar"),
			},
		},
		{
			name:  "none is spelled like the name",
			types: []string{"foo_bar", "Foo-Bar"},
			want:  map[string]string{"foo_bar": hashedName("foo_bar"), "Foo-Bar": hashedName("Foo-Bar")},
		},
		{
			name:     "the first keeps its class when others come",
			types:    []string{"foo-bar", "foo_bar", "Foo-Bar"},
			existing: []*storagev1.StorageClass{classOf(plain, "foo_bar")},
			want: map[string]string{
				"foo_bar": plain, "foo-bar": hashedName("foo-bar"), "Foo-Bar": hashedName("Foo-Bar"),
			},
		},
		{
			name:     "a class with a hash stays when the others are gone",
			types:    []string{"foo_bar"},
			existing: []*storagev1.StorageClass{classOf(hashedName("foo_bar"), "foo_bar")},
			want:     map[string]string{"foo_bar": hashedName("foo_bar")},
		},
		{
			name:     "another provisioner holds the plain name",
			types:    []string{"foo-bar"},
			existing: []*storagev1.StorageClass{foreign},
			want:     map[string]string{"foo-bar": hashedName("foo-bar")},
		},
		{
			name:     "a class of a type that is gone holds the plain name",
			types:    []string{"foo-bar"},
			existing: []*storagev1.StorageClass{classOf(plain, "FOO_BAR")},
			want:     map[string]string{"foo-bar": hashedName("foo-bar")},
		},
		{
			name:  "listed twice",
			types: []string{"gold", "gold"},
			want:  map[string]string{"gold": "csi-manila-gold"},
		},
		{
			name:  "none",
			types: nil,
			want:  map[string]string{},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // to be repeatable
			for range 10 {
				random.Shuffle(len(test.types),
					func(i, j int) { test.types[i], test.types[j] = test.types[j], test.types[i] })
				assert.Assert(t, is.DeepEqual(test.want, names().Of(test.types, ByName(test.existing))),
					"names")
			}
		})
	}
}

// TestTypeNamedLikeClassGetsHash uses a type with the name of the class of another type.
func TestTypeNamedLikeClassGetsHash(t *testing.T) {
	t.Parallel()
	mimic := strings.TrimPrefix(hashedName("foo_bar"), names().Prefix)
	got := names().Of([]string{"foo-bar", "foo_bar", mimic}, nil)
	want := map[string]string{
		"foo-bar": "csi-manila-foo-bar", "foo_bar": hashedName("foo_bar"), mimic: hashedName(mimic),
	}
	assert.Check(t, is.DeepEqual(want, got), "names")
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
			if faults := validation.IsDNS1123Subdomain(name); faults != nil {
				t.Fatalf("%q gets the name %q: %v", shareType, name, faults)
			}
			if other, ok := taken[name]; ok {
				t.Fatalf("%q and %q both get the name %q", shareType, other, name)
			}
			taken[name] = shareType
		}
		for name, class := range existing {
			if shareType := class.Parameters[TypeParameter]; got[shareType] != name {
				t.Fatalf("%q moves from %q to %q when others come", shareType, name, got[shareType])
			}
		}
		shuffled := slices.Clone(types)
		random.Shuffle(len(shuffled),
			func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		assert.Assert(t, is.DeepEqual(got, names().Of(shuffled, existing)),
			"names of %q depend on the order", types)
		assert.Assert(t, is.DeepEqual(got, names().Of(types, made(got))),
			"names of %q change once the classes exist", types)
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

// FuzzClassNames: whatever the types are called, their classes have valid names, each its own.
func FuzzClassNames(f *testing.F) {
	for _, seed := range []string{
		"gold", "Gold", "a_b", "a\nb", "../../x", "{{.}}", "${NAMESPACE}", strings.Repeat("ü", 255),
		"\x00", "csi-manila-gold", ".",
	} {
		f.Add(seed, "gold")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if !utf8.ValidString(a) || !utf8.ValidString(b) { // JSON has no other text
			return
		}
		got := names().Of([]string{a, b}, nil)
		for shareType, name := range got {
			if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 {
				t.Errorf("class %q of type %q: %v", name, shareType, faults)
			}
		}
		if a != b && got[a] == got[b] {
			t.Errorf("types %q and %q share the class %q", a, b, got[a])
		}
	})
}
