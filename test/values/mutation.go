package values

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Mutated returns a copy of values in which one value or key, at any depth, is another.
func (m *Maker) Mutated(values map[string]any) (map[string]any, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	var copied map[string]any
	if err := json.Unmarshal(text, &copied); err != nil {
		return nil, err
	}
	var places []func()
	m.visit(copied, func(any) {}, &places)
	pick(m, places)()
	return copied, nil
}

// visit adds functions to places, each of which changes something in a value. set replaces the
// value.
func (m *Maker) visit(value any, set func(any), places *[]func()) {
	*places = append(*places, func() { set(m.other(value)) })
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			m.visit(value[name], func(other any) { value[name] = other }, places)
			*places = append(*places, func() {
				value[m.wrong(name)] = value[name]
				delete(value, name)
			})
		}
		*places = append(*places, func() { value[m.wrong("unknown")] = "x" })
	case []any:
		for i, element := range value {
			m.visit(element, func(other any) { value[i] = other }, places)
		}
		if len(value) > 0 {
			*places = append(*places, func() { set(append(value, value[0])) })
		}
	}
}

// other returns another value in place of one.
func (m *Maker) other(value any) any {
	others := []any{nil, true, float64(-1), 1.5, float64(1 << 40), "", []any{}, map[string]any{}}
	switch value := value.(type) {
	case string:
		if !m.chance(4) {
			return m.wrong(value)
		}
	case []any:
		others = append(others, append(value, "unknown"), []any{map[string]any{"unknown": "x"}})
	case map[string]any:
		others = append(others, map[string]any{"unknown": "x"}, []any{value})
	}
	return pick(m, others)
}

// wrong returns a text like another one, which is often wrong.
func (m *Maker) wrong(text string) string {
	return pick(m, []string{
		"", " ", text + " ", " " + text, text + "/", "/" + text, "https://" + text, text + "\n",
		text + "_",
		"-" + text, text + "-", text + ".", strings.ToUpper(text), strings.ToLower(text), text + "é",
		strings.Repeat("x", 64), strings.Repeat("x", 254), strings.Repeat("a.", 160) + "a", "a b", "a//b",
		"*", "0", "-1", "1e3", "64Mb", "Exists", "true", text + ":" + text, text + "@" + text, "\x01",
		"a/b/c", "[", "x=y", "{{ .Values }}", "$(POD_NAME)",
	})
}
