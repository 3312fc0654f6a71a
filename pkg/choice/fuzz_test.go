package choice_test

import (
	"strings"
	"testing"
	"unicode"

	"gotest.tools/v3/assert"
	storagev1 "k8s.io/api/storage/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// FuzzParse proves that a text is either valid choices, or has printable faults in its lines, and
// that valid choices change only what they are about.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		complete, header, "", "[]", "a: &a [*a]", "\xff", "\t", "%", "---\n---\n",
		"{apiVersion: 1, kind: [], class: {labels: {? [] : x}}}",
		header + "classes: [{type: \"\\0\", name: x}, {type: ~}, 5]\n",
		header + "class: {<<: {labels: 5}}\n",
		header + "class: {mountOptions: [.nan, 1e999, 2026-01-01, !!binary eA==]}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []choice.Kind{choice.Manila, choice.Cinder} {
			config, faults := choice.Parse(kind, text, false)
			assert.Assert(t, (config == nil) == (len(faults) > 0), "got %v and %v", config, faults)
			for _, fault := range faults {
				last := strings.Count(text, "\n") + strings.Count(text, "\r") + 2
				if fault.Line < 1 || fault.Line > last || strings.ContainsFunc(fault.Problem, hidden) {
					t.Errorf("got line %d: %q", fault.Line, fault.Problem)
				}
			}
			if config != nil {
				checkClasses(t, config)
			}
		}
	})
}

func hidden(r rune) bool { return !unicode.IsGraphic(r) && r != '\n' }

func checkClasses(t *testing.T, config *choice.Config) {
	t.Helper()
	for _, chosen := range append(config.More(), choice.NamedClass{Class: config.ClassOf("gold")}) {
		class := &storagev1.StorageClass{
			Provisioner: "x", Parameters: map[string]string{"type": "gold"},
		}
		chosen.Apply(class)
		config.MarkDefault(class)
		assert.Check(t, class.Provisioner == "x" && class.Parameters["type"] == "gold", "got %v", class)
		if errs := metav1validation.ValidateLabels(class.Labels, nil); len(errs) > 0 {
			t.Error(errs)
		}
	}
}
