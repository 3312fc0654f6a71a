package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// readConstants returns the constants of each type of texts in Kubernetes' API, by its name: the
// values that the API server accepts.
func readConstants(root string) (map[string][]string, error) {
	list := exec.CommandContext(context.Background(), "go", "list", "-f", "{{.Dir}}",
		"k8s.io/api/core/v1", "k8s.io/apimachinery/pkg/apis/meta/v1")
	list.Dir = root
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("finding Kubernetes' API: %w", err)
	}
	constants := map[string][]string{}
	for _, folder := range strings.Fields(string(output)) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, "types.go"), nil, 0)
		if err != nil {
			return nil, err
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			spec, _ := node.(*ast.ValueSpec)
			if spec == nil || len(spec.Values) != 1 {
				return true
			}
			named, _ := spec.Type.(*ast.Ident)
			value, _ := spec.Values[0].(*ast.BasicLit)
			if named != nil && value != nil && value.Kind == token.STRING {
				text, _ := strconv.Unquote(value.Value) // the parser has accepted it
				constants[named.Name] = append(constants[named.Name], text)
			}
			return false
		})
	}
	return constants, nil
}

// requirements returns rules about several fields of a type of Kubernetes.
func requirements(t reflect.Type) []choice.Expression {
	switch t {
	case reflect.TypeFor[corev1.Toleration]():
		return []choice.Expression{{
			CEL: "has(self.key) && size(self.key) > 0 || " +
				"has(self.operator) && self.operator == 'Exists'",
			Message: "set a key, or the operator Exists",
		}, {
			CEL: "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || " +
				"size(self.value) == 0",
			Message: "remove the value, or the operator Exists",
		}, {
			CEL:     "!has(self.tolerationSeconds) || has(self.effect) && self.effect == 'NoExecute'",
			Message: "set the effect NoExecute, or remove tolerationSeconds",
		}}
	case reflect.TypeFor[corev1.NodeSelectorRequirement](),
		reflect.TypeFor[metav1.LabelSelectorRequirement]():
		return []choice.Expression{{
			CEL: "(has(self.values) ? size(self.values) : 0) > 0 == " +
				"!(self.operator in ['Exists', 'DoesNotExist'])",
			Message: "set values, except for the operators Exists and DoesNotExist",
		}}
	}
	return nil
}

// completePods adds to a property what Kubernetes requires of fields of pods.
func (g generator) completePods(property schema, f reflect.StructField) {
	labels := choice.RuleOf(g.kind, "labels")
	rule := f.Tag.Get("rule")
	switch {
	case rule == "nodes", rule == "added" && f.Name == "Labels":
		texts := property["additionalProperties"].(schema)
		texts["maxLength"] = labels.Max
		g.each().addPattern(texts, labels.Pattern, labels.Advice)
		addRules(property, labels.Expressions)
	case rule == "added":
		addRules(property, choice.RuleOf(g.kind, "annotations").Expressions[:1]) // the keys
	case f.Type == reflect.TypeFor[[]corev1.HostAlias]():
		address := property["items"].(schema)["properties"].(schema)["ip"].(schema)
		address["anyOf"] = []schema{{"format": "ipv4"}, {"format": "ipv6"}}
	}
}

// addRules adds rules to those of a schema.
func addRules(to schema, expressions []choice.Expression) {
	rules, _ := to["x-kubernetes-validations"].([]schema)
	for _, one := range expressions {
		rules = append(rules, schema{"rule": one.CEL, "message": one.Message})
	}
	if rules != nil {
		to["x-kubernetes-validations"] = rules
	}
}
