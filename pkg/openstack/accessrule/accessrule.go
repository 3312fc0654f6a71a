// Package accessrule compares requests with the access rules of an application credential, and
// reads the requests of the operators and the drivers from docs/openstack-requests.md.
package accessrule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Rule permits requests, or is a row of the page.
type Rule struct {
	// Service is the type of a service, such as sharev2. In Path * is one element, and ** any number.
	Service, Method, Path string
	// Senders are the programs that send such requests, and Purpose is what for. Only rows have them.
	Senders []string
	Purpose string
}

// Rules are those of an application credential, or the rows of the page.
type Rules []Rule

// columns is the number of cells of a row between the first and the last bar.
const columns = 5

// Parse returns the rows below a heading of the text of a page, and those of all headings without
// one: their first cell is the type of a service.
func Parse(text, heading string) (Rules, error) {
	if heading != "" {
		_, text, _ = strings.Cut(text, "\n## "+heading+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
	}
	var rules Rules
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(strings.TrimSpace(cells[i]), "`")
		}
		if len(cells) == columns && typesOf(cells[0]) != nil {
			rules = append(rules,
				Rule{cells[0], cells[1], cells[2], strings.Split(cells[3], ", "), cells[4]})
		}
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("the page contains no rules below %q", heading)
	}
	return rules, nil
}

// Of returns the rules of a sender.
func (r Rules) Of(sender string) Rules {
	return slices.DeleteFunc(slices.Clone(r), func(rule Rule) bool {
		return !slices.Contains(rule.Senders, sender)
	})
}

// typesOf returns the names that clouds give the type of a service; nil for a service that nothing
// here calls. A rule has the one in the configuration of the service, which a login cannot read.
func typesOf(service string) []string {
	for _, names := range [][]string{
		{"identity"},
		{"sharev2", "shared-file-system", "share"},
		{"volumev3", "block-storage", "block-store", "volume", "volumev2"},
		{"compute"},
	} {
		if slices.Contains(names, service) {
			return names
		}
	}
	return nil
}

// elements matches what rules may contain in place of elements of a path: {name}, * and **
// (https://docs.openstack.org/keystone/latest/user/application_credentials.html).
var elements = regexp.MustCompile(`\\\{[^{}]*\\\}|\\\*\\\*|\\\*`)

// Permits returns whether the rule permits a request with one of several paths, which begin with
// the version of the API.
func (r Rule) Permits(service, method string, paths ...string) bool {
	if !slices.Contains(typesOf(service), r.Service) || r.Method != method {
		return false
	}
	expression := elements.ReplaceAllStringFunc(regexp.QuoteMeta(r.Path), func(element string) string {
		if element == `\*\*` {
			return `.*`
		}
		return `[^/]+`
	})
	compiled, err := regexp.Compile("^" + expression + "$")
	return err == nil && slices.ContainsFunc(paths, compiled.MatchString)
}

// Refused returns the rows whose requests no rule permits. It assumes the form of paths that the
// rules were made for: with the project behind the version of the API or without, and behind a
// prefix such as /volume.
func (r Rules) Refused(rows Rules, project string) (refused Rules) {
	for _, row := range rows {
		if !slices.ContainsFunc(r, func(rule Rule) bool { return rule.permitsAny(row, project) }) {
			refused = append(refused, row)
		}
	}
	return refused
}

// beforeVersion matches the prefix of a path before the version of the API.
var beforeVersion = regexp.MustCompile(`^/[^*]+?(/v\d)`)

func (r Rule) permitsAny(row Rule, project string) bool {
	const id = "0123456789abcdef0123456789abcdef"
	permitted := Rule{
		Service: r.Service, Method: r.Method, Path: beforeVersion.ReplaceAllString(r.Path, "$1"),
	}
	_, rest, _ := strings.Cut(row.Path[1:], "/")
	version := strings.TrimSuffix(row.Path, "/"+rest)
	if row.Service == "volumev3" {
		rest = strings.TrimPrefix(rest, "*/")
	}
	rest = "/" + strings.ReplaceAll(rest, "*", id)
	return permitted.Permits(row.Service, row.Method, version+rest, version+"/"+project+rest)
}
