// Package values makes random values of a Helm chart from its schema. A test in test/integration
// installs them.
package values

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a JSON schema.
type Schema = map[string]any

// Maker makes random values. The same seed makes the same values.
type Maker struct {
	root     Schema
	compiled *jsonschema.Schema
	random   *rand.Rand
}

// New returns a Maker for the text of a schema.
func New(text []byte, seed uint64) (*Maker, error) {
	read, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("values.json", read); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile("values.json")
	if err != nil {
		return nil, err
	}
	return &Maker{read.(Schema), compiled, rand.New(rand.NewPCG(seed, seed))}, nil
}

// Refuses returns why the schema refuses values.
func (m *Maker) Refuses(values map[string]any) error { return m.compiled.Validate(values) }

// Valid returns values that the schema accepts.
func (m *Maker) Valid() (map[string]any, error) {
	var err error
	for range 100 {
		values := m.value(m.root).(map[string]any)
		if err = m.Refuses(values); err == nil {
			return values, nil
		}
	}
	return nil, fmt.Errorf("no value is valid: %w", err)
}

// chance returns true in one of n cases.
func (m *Maker) chance(n int) bool { return m.random.IntN(n) == 0 }

func pick[T any](m *Maker, all []T) T { return all[m.random.IntN(len(all))] }

// value returns a value that a schema probably accepts: it ignores conditions about several values.
func (m *Maker) value(s Schema) any {
	s = m.resolved(s)
	if _, optional := s["else"]; optional {
		if m.chance(20) {
			return nil
		}
		return m.value(given(s))
	}
	if one, ok := s["const"]; ok {
		return one
	}
	for _, keyword := range []string{"enum", "examples"} {
		if all, ok := s[keyword].([]any); ok {
			return pick(m, all)
		}
	}
	kind := s["type"]
	if all, ok := kind.([]any); ok {
		kind = pick(m, all)
	}
	switch kind {
	case "object":
		return m.object(s)
	case "array":
		return m.list(s)
	case "integer", "number":
		return m.number(s)
	case "boolean":
		return m.chance(2)
	default:
		return m.string(s)
	}
}

// resolved returns a schema without references and alternatives.
func (m *Maker) resolved(s Schema) Schema {
	if reference, ok := s["$ref"].(string); ok {
		target := m.root
		for step := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
			target = target[step].(Schema)
		}
		s = m.resolved(merged(target, without(s, "$ref")))
	}
	if all, ok := s["anyOf"].([]any); ok {
		s = m.resolved(merged(without(s, "anyOf"), pick(m, all).(Schema)))
	}
	return s
}

// given returns the schema of a value that is not null.
func given(s Schema) Schema { return merged(without(s, "if", "else"), s["else"].(Schema)) }

func without(s Schema, keywords ...string) Schema {
	s = maps.Clone(s)
	for _, keyword := range keywords {
		delete(s, keyword)
	}
	return s
}

// merged returns a schema that requires what both do.
func merged(a, b Schema) Schema {
	out := maps.Clone(a)
	for keyword, value := range b {
		switch old := out[keyword].(type) {
		case Schema:
			if child, ok := value.(Schema); ok {
				value = merged(old, child)
			}
		case []any:
			if keyword == "required" {
				value = slices.Concat(old, value.([]any))
			}
		}
		out[keyword] = value
	}
	return out
}

func (m *Maker) object(s Schema) map[string]any {
	values := map[string]any{}
	properties, _ := s["properties"].(Schema)
	required, _ := s["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := properties[name].(Schema)
		_, never := property["else"].(bool)
		if !never && (slices.Contains(required, any(name)) || m.chance(3)) {
			values[name] = m.value(property)
		}
	}
	dependent, _ := s["dependentSchemas"].(Schema)
	for name, more := range dependent {
		if values[name] != nil {
			maps.Copy(values, m.object(given(more.(Schema))))
		}
	}
	if more, ok := s["additionalProperties"].(Schema); ok {
		names, _ := s["propertyNames"].(Schema)
		for range m.random.IntN(3) {
			values[fmt.Sprint(m.value(merged(Schema{"type": "string"}, names)))] = m.value(more)
		}
	}
	return values
}

func (m *Maker) list(s Schema) []any {
	values := []any{}
	least, most := limit(s["minItems"], 0), min(limit(s["maxItems"], 2), 2)
	for range least + m.random.IntN(most-least+1) {
		values = append(values, m.value(s["items"].(Schema)))
	}
	return values
}

// number returns a number between the limits, which has at most three digits.
func (m *Maker) number(s Schema) any {
	low, high := limit(s["minimum"], 0), limit(s["maximum"], 999)
	return low + m.random.IntN(min(high, 999)-low+1)
}

func limit(value any, otherwise int) int {
	if value == nil {
		return otherwise
	}
	var number int
	fmt.Sscan(fmt.Sprint(value), &number) //nolint:errcheck // limits are numbers
	return number
}

func (m *Maker) string(s Schema) string {
	pattern, ok := s["pattern"].(string)
	if !ok {
		pattern = `^[ -~]+$`
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "" // the schema was compiled, so this does not happen
	}
	longest, text := limit(s["maxLength"], 1000), ""
	for range 100 {
		text = m.text(parsed)
		if n := utf8.RuneCountInString(text); n <= longest && n >= limit(s["minLength"], 0) {
			break
		}
	}
	return text
}

// text returns a text that a regular expression matches.
func (m *Maker) text(e *syntax.Regexp) string {
	times := func(least, most int) string {
		var out strings.Builder
		for range least + m.random.IntN(most-least+1) {
			out.WriteString(m.text(e.Sub[0]))
		}
		return out.String()
	}
	const more = 3
	switch e.Op {
	case syntax.OpLiteral:
		return string(e.Rune)
	case syntax.OpCharClass:
		i := 2 * m.random.IntN(len(e.Rune)/2)
		return string(e.Rune[i] + rune(m.random.IntN(int(e.Rune[i+1]-e.Rune[i])+1)))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpCapture:
		return m.text(e.Sub[0])
	case syntax.OpStar:
		return times(0, more)
	case syntax.OpPlus:
		return times(1, 1+more)
	case syntax.OpQuest:
		return times(0, 1)
	case syntax.OpRepeat:
		if e.Max < 0 {
			return times(e.Min, e.Min+more)
		}
		return times(e.Min, min(e.Max, e.Min+more))
	case syntax.OpAlternate:
		return m.text(pick(m, e.Sub))
	case syntax.OpConcat:
		var out strings.Builder
		for _, part := range e.Sub {
			out.WriteString(m.text(part))
		}
		return out.String()
	}
	return "" // an anchor
}
