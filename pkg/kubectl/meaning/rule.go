package meaning

import (
	"cmp"
	_ "embed" // for table.txt
	"iter"
	"path"
	"slices"
	"strings"
)

// table contains the rules. Its beginning describes the format.
//
//go:embed table.txt
var table string

// rule is a paragraph of the table.
type rule struct {
	// when are the conditions of the section and of the rule.
	when []condition
	// says are the patterns of which one must fit; none if the text does not matter.
	says []string
	// cases are the meanings. The first one whose conditions are true is the meaning.
	cases []meaningCase
}

type meaningCase struct {
	where []condition
	Meaning
}

// condition compares a fact with patterns of path.Match, of which one must fit.
type condition struct {
	fact   string
	values []string
}

// rules reads the table until a rule applies. A test proves that each line has the format.
func rules() iter.Seq[rule] {
	return func(yield func(rule) bool) {
		var section []condition
		for paragraph := range strings.SplitSeq(table, "\n\n") {
			r := rule{when: section}
			for line := range strings.Lines(paragraph) {
				key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
				switch key {
				case "", "#":
				case "section":
					section = conditions(value)
					r.when = section
				case "when":
					r.when = append(slices.Clip(section), conditions(value)...)
				case "says":
					r.says = append(r.says, value)
				default:
					r.add(key, value)
				}
			}
			if len(r.cases) > 0 && !yield(r) {
				return
			}
		}
	}
}

// conditions reads "fact=value,value fact=value".
func conditions(text string) (all []condition) {
	for _, field := range strings.Fields(text) {
		fact, values, _ := strings.Cut(field, "=")
		all = append(all, condition{fact, strings.Split(values, ",")})
	}
	return all
}

// add adds a line of a case. The line "where" begins a case, and so does the first line.
func (r *rule) add(key, value string) {
	if key == "where" || len(r.cases) == 0 {
		r.cases = append(r.cases, meaningCase{Meaning: Meaning{Rank: Answered}})
	}
	c := &r.cases[len(r.cases)-1]
	switch key {
	case "where":
		c.where = conditions(value)
	case "stops":
		c.Stops = value
	case "next":
		c.Next = value
	case "topic":
		c.Topic = Topic(value)
	case "rank":
		c.Rank = Rank(slices.Index(rankNames(), value))
	}
}

// rankNames returns the names of the ranks in the table.
func rankNames() []string {
	return []string{"consequence", "unknown", "unreachable", "login", "answered"}
}

// judge returns the meaning of a rule for an error, if it applies.
func (r rule) judge(known facts, said []string) (Meaning, bool) {
	if !known.fulfil(r.when) {
		return Meaning{}, false
	}
	if len(r.says) > 0 {
		captured, fits := r.capture(said)
		if !fits {
			return Meaning{}, false
		}
		known = known.with(captured)
	}
	for _, c := range r.cases {
		if known.fulfil(c.where) {
			c.Stops, c.Next, c.Quota = known.fill(c.Stops), known.fill(c.Next), known["quota"]
			return c.Meaning, true
		}
	}
	return Meaning{}, false
}

// capture returns the parts of the first text that a pattern of the rule fits.
func (r rule) capture(said []string) (facts, bool) {
	for _, pattern := range r.says {
		for _, text := range said {
			if captured, fits := match(pattern, text); fits {
				captured["message"] = text
				return captured, true
			}
		}
	}
	return nil, false
}

// match compares a text with a pattern and returns what the {names} in it stand for: {x}, {things},
// {type} and {wanted} for any text, others for a word or for what is in quotes.
func match(pattern, text string) (facts, bool) {
	literal, rest, more := strings.Cut(pattern, "{")
	if text, fits := strings.CutPrefix(text, literal); !fits || !more {
		return facts{}, fits && text == ""
	}
	text = text[len(literal):]
	name, rest, _ := strings.Cut(rest, "}")
	next, _, more := strings.Cut(rest, "{")
	for end := 1; end <= len(text); end++ {
		at := strings.Index(text[end:], next)
		if !more {
			at = len(text) - len(next) - end // the last literal is the end of the text
		}
		if at < 0 {
			break
		}
		end += at
		value := strings.Trim(text[:end], `"'`)
		word := !strings.Contains(value, " ") || strings.ContainsRune(`"'`, rune(text[0]))
		if !word && !slices.Contains([]string{"x", "things", "type", "wanted"}, name) {
			continue
		}
		if captured, fits := match(rest, text[end:]); fits {
			captured[name] = value
			return captured, true
		}
	}
	return nil, false
}

// facts are the parts of an error by their names in the table.
type facts map[string]string

// fulfil returns whether all conditions are true. A fact that is missing is "-".
func (f facts) fulfil(conditions []condition) bool {
	return !slices.ContainsFunc(conditions, func(c condition) bool {
		return !slices.ContainsFunc(c.values, func(pattern string) bool {
			// A test proves that patterns have the format.
			fits, _ := path.Match(pattern, cmp.Or(f[c.fact], "-"))
			return fits
		})
	})
}
