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
	// nameLimit is how many bytes a name has at most. URLs are the longest ones.
	nameLimit = 1 << 10
)

// Parse cuts a text from outside to inside. It reads at most 32 KiB of it.
func Parse(text string) Fault {
	p := &parser{Fault: Fault{Text: text}, forms: forms()}
	p.chain(trimLog(text[:min(len(text), limit)]))
	if p.Words == "" {
		p.Words = wordsOf(p.Message)
	}
	return p.Fault
}

type parser struct {
	Fault
	forms []form
	// inside is set when the words of the component have ended.
	inside bool
	// parts is the number of parts that were cut.
	parts int
}

// chain parses one error after the other until nothing is left. Words that no form explains are
// skipped, if what follows them can be parsed.
func (p *parser) chain(text string) {
	text = strings.TrimSpace(text)
	p.Message = text
	for rest := text; p.parts < depth; {
		p.parts++
		if p.leaf(rest) {
			return
		}
		next, matched := p.frame(rest)
		if !matched {
			if next = skip(rest); next == "" {
				return
			}
		}
		if rest = strings.TrimSpace(next); rest == "" {
			return
		}
		if matched {
			p.Message = rest
		}
	}
}

// end keeps what the last error of the chain is. It returns true.
func (p *parser) end(leaf Leaf, message string) bool {
	p.Leaf, p.Message = leaf, strings.TrimSpace(message)
	return true
}

func (p *parser) name(noun Noun, name string) {
	if p.Names == nil {
		p.Names = map[Noun]string{}
	}
	if _, named := p.Names[noun]; !named && noun != "" && name != "" {
		p.Names[noun] = name
	}
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

// frame cuts the words around another error.
func (p *parser) frame(text string) (string, bool) {
	if rest, found := strings.CutPrefix(text, "rpc error: code = "); found {
		if code, desc, found := strings.Cut(rest, " desc = "); found && isWord(code) {
			p.Code = code
			p.reports(Driver, "")
			return unquoteAll(desc), true
		}
	}
	if operation, rest, found := cutOperation(text); found {
		p.reports(Driver, operation)
		return rest, true
	}
	if rest, found := p.volumeOperation(text); found {
		return rest, true
	}
	for _, f := range p.forms {
		if p.inside && f.by != Driver || !strings.Contains(f.text, "{error}") {
			continue
		}
		if m, matched := match(f.text, text); matched {
			p.apply(f, m)
			return m.inner, true
		}
	}
	return "", false
}

// apply keeps the names of a form.
func (p *parser) apply(f form, m matched) {
	p.reports(f.by, f.operation)
	for _, n := range m.names {
		p.name(n.noun, n.name)
	}
}

// cutOperation cuts the request that drivers put before their words: "[CreateVolume] ".
func cutOperation(text string) (operation, rest string, found bool) {
	if !strings.HasPrefix(text, "[") {
		return "", "", false
	}
	operation, rest, found = strings.Cut(text[1:], "] ")
	upper := operation != "" && operation[0] >= 'A' && operation[0] <= 'Z'
	return operation, rest, found && upper && isWord(operation)
}

// volumeOperation cuts what the kubelet and the attach-detach controller put around an error:
// "MountVolume.SetUp failed for volume "pvc-1" : ".
func (p *parser) volumeOperation(text string) (string, bool) {
	operation, rest, found := strings.Cut(text[:min(len(text), nameLimit)], ` for volume "`)
	if !found || p.inside {
		return "", false
	}
	volume, _, found := strings.Cut(rest, `"`)
	if found && operation == "Multi-Attach error" {
		p.reports(AttachDetach, operation)
		p.name(Volume, volume)
		return "", p.end(MultiAttach, text[strings.LastIndex(text, `"`)+1:])
	}
	word, _, _ := strings.Cut(operation, " ")
	kind, step, dotted := strings.Cut(word, ".")
	known := dotted && isWord(kind) && isWord(step) &&
		(strings.HasSuffix(kind, "Volume") || strings.HasSuffix(kind, "olumes") ||
			strings.HasSuffix(kind, "Device") || kind == "NodeExpandvolume")
	if !found || !known {
		return "", false
	}
	by := Kubelet
	if kind == "AttachVolume" || kind == "DetachVolume" {
		by = AttachDetach
	}
	p.reports(by, word)
	p.name(Volume, volume)
	rest = strings.TrimLeft(text[len(operation)+len(` for volume "`)+len(volume)+1:], " ")
	if _, tail, found := strings.Cut(rest, ") : "); found && strings.HasPrefix(rest, "(") {
		return tail, true // a log: details are in parentheses
	}
	return strings.TrimPrefix(rest, ": "), true
}

// skip returns what follows the next end of words outside of quotes and brackets, "" if nothing
// does.
func skip(text string) string {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			if quoted, err := strconv.QuotedPrefix(text[i:]); err == nil {
				i += len(quoted) - 1
			}
		case '[':
			if j := strings.IndexAny(text[i:min(len(text), i+nameLimit)], "]\n"); j > 0 {
				i += j
			}
		case ':':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\n') {
				return text[i+2:]
			}
		case ' ':
			for _, word := range []string{" with error ", " with err ", " node error "} {
				if strings.HasPrefix(text[i:], word) {
					return text[i+len(word):]
				}
			}
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
	if _, err := strconv.Atoi(fields[0][1:]); err != nil {
		return 0, "", false
	}
	if _, value, found := strings.Cut(said, ` err="`); found && said[0] == '"' {
		if quoted, err := strconv.QuotedPrefix(`"` + value); err == nil {
			return fields[0][0], unquoteAll(quoted), true
		}
		return fields[0][0], strings.ReplaceAll(value, `\"`, `"`), true
	}
	return fields[0][0], said, true
}

// unquoteAll returns what a quoted text contains, if all of the text is quoted.
func unquoteAll(text string) string {
	if plain, err := strconv.Unquote(strings.TrimSpace(text)); err == nil && text[0] == '"' {
		return plain
	}
	return text
}

// isWord returns whether a text consists of letters.
func isWord(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}
