package fault

import (
	"strconv"
	"strings"
)

const (
	// limit is how many bytes of a text are parsed. Events have at most 1 KiB, conditions 32 KiB.
	limit = 32 << 10
	// depth is how many parts a chain has at most.
	depth = 64
)

// Parse cuts a text from outside to inside. It reads at most 32 KiB of it.
func Parse(text string) Fault {
	p := &parser{Fault: Fault{Text: text}, forms: forms()}
	p.chain(trimLog(text[:min(len(text), limit)]))
	if p.Leaf == "" {
		p.Leaf = p.otherwise
	}
	return p.Fault
}

type parser struct {
	Fault
	forms []form
	// inside is set when the words of the component have ended.
	inside bool
	// otherwise is the leaf if no format explains the error inside.
	otherwise Leaf
	// parts is the number of parts that were cut.
	parts int
}

// chain parses one error after the other until nothing is left. Words that no format explains are
// skipped, if what follows them can be parsed.
func (p *parser) chain(text string) {
	p.Message = strings.TrimSpace(text)
	for rest := p.Message; rest != "" && p.parts < depth; rest = strings.TrimSpace(rest) {
		p.parts++
		if p.answer(rest) || p.operator(rest) || p.scheduling(rest) {
			return
		}
		inner, explained := p.frame(rest)
		if p.Leaf != "" {
			return
		}
		if !explained {
			rest = skip(rest)
			continue
		}
		rest = inner
		p.Message = strings.TrimSpace(rest)
	}
}

// end keeps what the last error of the chain is.
func (p *parser) end(leaf Leaf, message string) {
	p.Leaf, p.Message = leaf, strings.TrimSpace(message)
}

// reports keeps who wrote a part. The first one wrote the text.
func (p *parser) reports(by Component, operation string) {
	if p.Reporter == "" {
		p.Reporter = by
	}
	if p.Operation == "" {
		p.Operation = operation
	}
	p.inside = p.inside || by == Driver
}

// frame cuts the words around another error, or finds that there is none.
func (p *parser) frame(text string) (inner string, explained bool) {
	if operation, rest, found := cutOperation(text); found {
		p.reports(Driver, operation)
		return rest, true
	}
	for _, f := range p.forms {
		// The words of a driver follow its code, but it may begin with them in a log.
		outer := f.by != "" && f.by != Driver
		if !strings.HasPrefix(text, f.begin) || p.inside && outer ||
			!p.inside && f.by == Driver && f.begin == "" {
			continue
		}
		if m, found := match(f.text, text); found {
			p.apply(f, m, text)
			return m.inner, true
		}
	}
	if isErrno(text) {
		p.end(System, text)
	}
	return "", false
}

// apply keeps what a form says.
func (p *parser) apply(f form, m matched, text string) {
	p.reports(f.by, f.operation)
	if f.leaf == NotFound || f.leaf == Exists { // which object it is, and not the one that needs it
		delete(p.Names, Resource)
		delete(p.Names, Name)
	}
	for _, n := range m.names {
		p.name(n.noun, n.name)
	}
	switch {
	case m.nested:
		if f.leaf != "" {
			p.otherwise = f.leaf
		}
		return
	case f.leaf == "" && f.by == Driver:
		f.leaf = DriverWords
	case f.leaf == "":
		f.leaf = ComponentWords
	}
	p.end(f.leaf, text)
	p.gather()
}

// name keeps what a noun of a form stands for.
func (p *parser) name(noun Noun, name string) {
	switch noun {
	case "", "rest":
		return
	case "code":
		p.Code = name
		return
	case "operation":
		p.reports("", name)
		return
	}
	if p.Names == nil {
		p.Names = map[Noun]string{}
	}
	if _, named := p.Names[noun]; !named {
		p.Names[noun] = name
	}
}

// take removes a name that is a part of its own.
func (p *parser) take(noun Noun) string {
	name := p.Names[noun]
	delete(p.Names, noun)
	return name
}

// gather makes the message, a command or a quota of what the names say about it.
func (p *parser) gather() {
	if message := p.take("message"); message != "" {
		p.Message = message
	}
	switch p.Leaf {
	case Mount, CommandFailed:
		p.Command = &Command{
			Name: p.take("command"), Arguments: p.take("arguments"), Exit: p.take("exit"),
			Output: strings.TrimSpace(p.take("output")),
		}
		if p.Command.Output != "" {
			p.Message = p.Command.Output
		}
	case SecurityContext:
		p.Message = refusals(p.Message)
	case ExceededQuota:
		p.Quota = &Quota{
			Name: p.take("quota"), Requested: amounts(p.take("requested")), Used: amounts(p.take("used")),
			Limited: amounts(p.take("limited")),
		}
	}
}

// refusals returns why the SecurityContextConstraints that a pod may use refuse it; "" for none.
func refusals(text string) string {
	var all []string
	for part := range strings.SplitSeq(strings.Trim(text, "[]"), ", provider ") {
		part = strings.TrimPrefix(part, "provider ")
		if !strings.HasSuffix(part, ": Forbidden: not usable by user or serviceaccount") {
			words := strings.Split(part, ": ") // SCC, field, error, value, and often what is wrong with it
			if len(words) > 4 {
				words = []string{words[0], words[1], words[4]}
			}
			all = append(all, strings.Join(words, ": "))
		}
	}
	return strings.Join(all, ", ")
}

// amounts parses "requests.storage=40Gi,persistentvolumeclaims=1".
func amounts(text string) map[string]string {
	amounts := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		resource, amount, _ := strings.Cut(part, "=")
		amounts[strings.TrimSpace(resource)] = amount
	}
	return amounts
}

// cutOperation cuts the request that drivers put before their words: "[CreateVolume] ".
func cutOperation(text string) (operation, rest string, found bool) {
	if text, found = strings.CutPrefix(text, "["); !found {
		return "", "", false
	}
	operation, rest, found = strings.Cut(text, "] ")
	return operation, rest, found && isWord(operation) && operation[0] < 'a'
}

// skip returns what follows the next end of words outside of quotes and brackets, or "".
func skip(text string) string {
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch {
		case rest[0] == '"':
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				continue
			}
			if plain := unquote(quoted); strings.HasPrefix(plain, "rpc error: code = ") {
				return plain
			}
			i += len(quoted) - 1
		case rest[0] == '[':
			i += max(0, strings.IndexAny(rest[:min(len(rest), nameLimit)], "]\n"))
		case strings.HasPrefix(rest, ": "), strings.HasPrefix(rest, ":\n"):
			return rest[2:]
		case i > 0 && (text[i-1] == ' ' || text[i-1] == '=') &&
			(strings.HasPrefix(rest, "rpc error: code = ") || strings.HasPrefix(rest, unexpected)):
			return rest
		}
	}
	return ""
}

// trimLog cuts what is no part of an error: the mark of similar events, and what klog puts around
// it. Of several lines it keeps the last error.
func trimLog(text string) string {
	text = strings.TrimPrefix(strings.TrimSpace(text), "(combined from similar events): ")
	if _, _, found := cutKlog(text); !found {
		return text
	}
	kept := ""
	for line := range strings.Lines(text) {
		level, said, found := cutKlog(line)
		if found && (kept == "" || level == 'E' || level == 'F') {
			kept = said
		}
	}
	return kept
}

// cutKlog cuts the header of a line of klog, "E1128 16:10:12.884314       1 main.go:103] ". Of a
// structured line it returns the value of err.
func cutKlog(line string) (level byte, said string, found bool) {
	header, said, found := strings.Cut(strings.TrimSpace(line), "] ")
	fields := strings.Fields(header)
	if !found || len(fields) != 4 || len(fields[0]) != 5 || !strings.Contains(fields[3], ".go:") {
		return 0, "", false
	}
	level = fields[0][0]
	if _, value, found := strings.Cut(said, ` err="`); found && said[0] == '"' {
		if quoted, err := strconv.QuotedPrefix(`"` + value); err == nil {
			return level, unquote(quoted), true
		}
		return level, unescape(value), true
	}
	return level, said, true
}

// unquote returns what a quoted text contains, or the text if it is not quoted from end to end.
func unquote(text string) string {
	if plain, err := strconv.Unquote(text); err == nil && text[0] == '"' {
		return plain
	}
	return text
}

// unescape returns what a quoted text whose end is cut contains.
func unescape(text string) string { return strings.ReplaceAll(text, `\"`, `"`) }

// isWord returns whether a text consists of letters.
func isWord(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}
