package choice

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

func (c *checker) checkNumber(
	node *yaml.Node, t reflect.Type, tag reflect.StructTag, at *field.Path,
) {
	number := reflect.New(t)
	isNumber := node.ShortTag() == "!!int" && node.Decode(number.Interface()) == nil
	limits := tag.Get("range")
	low, high, _ := strings.Cut(limits, "-")
	lowest, _ := strconv.ParseInt(low, 10, 64) // tags are constants
	highest, _ := strconv.ParseInt(high, 10, 64)
	switch {
	case limits == "" && !isNumber:
		c.fault(node.Line, at, "must be a number without quotation marks, and is %q", node.Value)
	case limits != "" && (!isNumber || number.Elem().Int() < lowest || number.Elem().Int() > highest):
		c.fault(node.Line, at, "must be a number from %d to %d without quotation marks, and is %q",
			lowest, highest, node.Value)
	}
}

func (c *checker) checkText(node *yaml.Node, tag reflect.StructTag, at *field.Path) {
	values, rule := strings.Split(tag.Get("enum"), ","), RuleOf(c.kind, tag.Get("rule"))
	highest, _ := strconv.Atoi(tag.Get("max")) // tags are constants
	highest = cmp.Or(highest, rule.Max)
	var wrong *field.Error
	switch {
	case highest > 0 && utf8.RuneCountInString(node.Value) > highest:
		wrong = field.TooLong(at, "", highest)
		wrong.Detail = fmt.Sprintf("must have at most %d characters", highest)
	case tag.Get("enum") != "" && !slices.Contains(values, node.Value):
		wrong = field.NotSupported(at, node.Value, values)
	case rule.Advice != "" && !rule.ByCode && !c.pattern(rule.Pattern).MatchString(node.Value):
		wrong = field.Invalid(at, node.Value, rule.Advice)
	}
	isSwitch := c.inSpec && node.ShortTag() == "!!str" && !position.IsText(node)
	switch {
	case wrong == nil && (isSwitch || node.ShortTag() == "!!bool"):
		c.fault(node.Line, at, "Invalid value: %q: must be a text, but YAML reads a switch: write the "+
			"text that you mean in quotation marks", node.Value)
	case wrong == nil && node.ShortTag() != "!!str":
		c.fault(node.Line, at, "Invalid value: %q: must be a text: quote it", node.Value)
	case wrong != nil && (isSwitch || node.ShortTag() != "!!str"):
		c.fault(node.Line, nil, "%v", wrong)
	case wrong != nil && len(c.invalid) < maxFaults:
		c.invalid = append(c.invalid, position.ErrorAt(position.Position{File: Key, Line: node.Line},
			"%w", wrong))
	}
}

func (c *checker) checkQuantity(node *yaml.Node, at *field.Path) {
	_, err := resource.ParseQuantity(node.Value)
	switch tag := node.ShortTag(); {
	case err == nil && c.pattern(`\[`+byteKeys+`\]$`).MatchString(at.String()) &&
		!c.pattern(byteCount).MatchString(node.Value):
		c.fault(node.Line, at, "%s: %s", node.Value, byteAdvice)
	case tag == "!!float" && err == nil:
		c.fault(node.Line, at, "write %q in quotation marks", node.Value)
	case tag != "!!int" && (tag != "!!str" || err != nil):
		c.fault(node.Line, at, `must be a quantity such as 100m, 64Mi or "0.5", and is %s`,
			cmp.Or(node.Value, position.Shape(node)))
	}
}
