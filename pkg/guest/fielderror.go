// Package guest is the only door for values that cross from the cluster that an operator serves to the objects that it writes.
// On HyperShift the administrator of the hosted cluster may write anything into that cluster, and the operator writes Deployments
// of the management cluster. So everything is decoded into types and compared with lists of what is allowed before a hook or a
// library sees it, and what it costs in memory is limited (decision 0015). Its callers are pkg/cluster and the core.
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

// FieldError is an invalid value in an object of the guest. Its text is short and printable whatever the value is.
type FieldError struct {
	// Object and Field say where the value is.
	Object, Field string
	// Problem says what is wrong, and Fix what to do.
	Problem, Fix string
}

func (f *FieldError) Error() string {
	return Printable(fmt.Sprintf("field %s of %s %s: %s", f.Field, f.Object, f.Problem, f.Fix), maxMessage)
}

// The limits of what is shown of a guest's text.
const (
	maxQuoted  = 40
	maxMessage = 4096
)

// quote returns a value for a message: quoted, in ASCII, and not much longer than maxQuoted.
func quote(value string) string {
	if len(value) <= maxQuoted {
		return strconv.QuoteToASCII(value)
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.QuoteToASCII(value[:maxQuoted]), len(value))
}

// Printable returns text without control characters, line ends excepted, and at most limit bytes of it.
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

// jsonPath returns the path of a field without the names of embedded Go types, which encoding/json adds.
func jsonPath(path string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(path, "."), func(name string) bool {
		return name != "" && unicode.IsUpper(rune(name[0])) && strings.ToUpper(name) != name
	}), ".")
}

// undecodable is the fault of an object, or of its field, whose JSON does not fit the type.
func undecodable(object, field string, err error) *FieldError {
	problem := "cannot be decoded: " + Printable(err.Error(), 4*maxQuoted)
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		problem = fmt.Sprintf("has type %s instead of %s", Printable(mismatch.Value, maxQuoted), mismatch.Type)
		field = strings.Trim(field+"."+Printable(jsonPath(mismatch.Field), 4*maxQuoted), ".")
	}
	return &FieldError{Object: object, Field: field, Problem: problem, Fix: "correct or remove it"}
}
