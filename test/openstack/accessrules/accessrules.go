// Package accessrules reads the access rules in docs/openstack-requests.md, and finds requests that
// none of them permits. Tests of the operators and of the drivers call it.
package accessrules

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Rule is a row of the page.
type Rule struct {
	// Service is the type of a service, such as sharev2.
	Service, Method, Path string
	// Senders are the programs that send such requests.
	Senders []string
}

// Rules are the rows of the page.
type Rules []Rule

// columns is the number of cells of a row between the first and the last bar.
const columns = 5

// Read returns the rows of all tables of a page whose first cell is the type of a service.
func Read(page string) (Rules, error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, err
	}
	return Parse(string(text), "")
}

// Parse returns the rows below a heading of the text of a page, and those of all headings without
// one.
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
		if _, known := services()[cells[0]]; !known || len(cells) != columns {
			continue
		}
		senders := strings.Split(cells[3], ", ")
		rules = append(rules, Rule{cells[0], cells[1], cells[2], senders})
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("the page contains no rules below %q", heading)
	}
	return rules, nil
}

// Calls returns a call that each rule permits, as the counters of a cloud name it.
func (r Rules) Calls() map[string]int {
	const id = "0123456789abcdef0123456789abcdef"
	calls := map[string]int{}
	for _, rule := range r {
		path := strings.ReplaceAll(rule.Path, "*", id)
		calls[rule.Method+" /"+string(services()[rule.Service])+path] = 1
	}
	return calls
}

func services() map[string]simulator.Service {
	return map[string]simulator.Service{
		"identity": simulator.Identity, "sharev2": simulator.Share, "volumev3": simulator.Volume,
		"compute": simulator.Compute,
	}
}

// Of returns the rules of a sender.
func (r Rules) Of(sender string) Rules {
	return slices.DeleteFunc(slices.Clone(r), func(rule Rule) bool {
		return !slices.Contains(rule.Senders, sender)
	})
}

// Compare returns the calls of the counters of a cloud that no rule permits, and the rules that
// permit none of them. Calls that are not to a service are ignored.
func (r Rules) Compare(calls map[string]int) (forbidden []string, unused Rules) {
	used := map[int]bool{}
	for call := range calls {
		method, rest, _ := strings.Cut(call, " /")
		service, path, _ := strings.Cut(rest, "/")
		if !slices.Contains(simulator.Services(), simulator.Service(service)) {
			continue
		}
		permitted := false
		for i, rule := range r {
			if rule.permits(simulator.Service(service), method, "/"+path) {
				permitted, used[i] = true, true
			}
		}
		if !permitted {
			forbidden = append(forbidden, call)
		}
	}
	for i, rule := range r {
		if !used[i] {
			unused = append(unused, rule)
		}
	}
	slices.Sort(forbidden)
	return forbidden, unused
}

// permits compares a request with the rule as the middleware of OpenStack's services does, except
// that the project may be missing in the path: the catalog of the simulator contains Cinder's URL
// without a project.
func (r Rule) permits(service simulator.Service, method, path string) bool {
	if services()[r.Service] != service || r.Method != method {
		return false
	}
	expression := regexp.QuoteMeta(r.Path)
	if r.Service == "volumev3" {
		expression = strings.Replace(expression, `/v3/\*/`, `/v3/(?:[0-9a-f]{32}/)?`, 1)
	}
	expression = strings.ReplaceAll(expression, `\*\*`, `.*`)
	expression = strings.ReplaceAll(expression, `\*`, `[^/]+`)
	return regexp.MustCompile("^" + expression + "$").MatchString(path)
}
