// Package guest checks all values that operators read from the guest side before hooks and
// libraries use them. Its callers are pkg/cluster, pkg/hook, pkg/operator and the Cinder driver.
//
// On HyperShift the administrator of the guest cluster may write anything into that cluster, and
// the operator writes Deployments of the management cluster. So the package decodes everything into
// types, accepts only allowed values, and limits the use of memory (decision 0015).
package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FieldError reports an invalid value in an object of the guest side, always short and printable.
type FieldError struct {
	// Object and Field contain the value.
	Object, Field string
	// Problem describes what is wrong, and Fix what to do.
	Problem, Fix string
}

func (f *FieldError) Error() string {
	return Printable(fmt.Sprintf("field %s of %s %s: %s", f.Field, f.Object, f.Problem, f.Fix),
		MaxMessage)
}

// The limits of untrusted text in messages, in bytes.
const (
	maxQuoted = 40
	// MaxMessage limits the messages of conditions.
	MaxMessage = 4096
)

// quote returns a quoted value for a message, in ASCII and not much longer than maxQuoted.
func quote(value string) string {
	if len(value) <= maxQuoted {
		return strconv.QuoteToASCII(value)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.QuoteToASCII(value[:maxQuoted]), len(value))
}

// Printable returns at most limit bytes of text, without control characters except newlines.
func Printable(text string, limit int) string {
	const more = "... (truncated)"
	if len(text) > limit {
		cut := max(limit-len(more), 0)
		for cut > 0 && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + more
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && (unicode.IsControl(r) || r == utf8.RuneError) {
			return '?'
		}
		return r
	}, text)
}

// jsonPath removes names of embedded Go types, which encoding/json adds, from the path of a field.
func jsonPath(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), func(name string) bool {
		return name != "" && unicode.IsUpper(rune(name[0])) && strings.ToUpper(name) != name
	}), ".")
}

// convert decodes the JSON of a value.
func convert(from, into any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// undecodable returns the error for an object or a field whose JSON does not match the type.
func undecodable(object, field string, err error) *FieldError {
	problem := "cannot be decoded: " + Printable(err.Error(), 4*maxQuoted)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		problem = fmt.Sprintf("has type %s instead of %s", Printable(mismatch.Value, maxQuoted),
			mismatch.Type)
		field = strings.Trim(field+"."+Printable(jsonPath(mismatch.Field), 4*maxQuoted), ".")
	}
	return &FieldError{Object: object, Field: field, Problem: problem, Fix: "fix or remove it"}
}
