// Package accessrules finds requests that no row of docs/openstack-requests.md permits. Tests of
// the operators and of the drivers call it.
package accessrules

import (
	"regexp"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/openstack/accessrule"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// id is that of a project or of an object.
const id = "0123456789abcdef0123456789abcdef"

// Calls returns a call that each rule permits, as the counters of a cloud name it.
func Calls(rules accessrule.Rules) map[string]int {
	calls := map[string]int{}
	for _, rule := range rules {
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

// withProject matches paths of Cinder. The catalog of the simulator contains its URL without a
// project.
var withProject = regexp.MustCompile(`^/volume/v3/[0-9a-f]{32}/`)

// Compare returns the calls of the counters of a cloud that no rule permits, and the rules that
// permit none of them. Calls that are not to a service are ignored.
func Compare(
	rules accessrule.Rules, calls map[string]int,
) (forbidden []string, unused accessrule.Rules) {
	used := map[int]bool{}
	for call := range calls {
		method, path, _ := strings.Cut(call, " ")
		if !withProject.MatchString(path) {
			path = strings.Replace(path, "/volume/v3/", "/volume/v3/"+id+"/", 1)
		}
		service, path, _ := strings.Cut(path[1:], "/")
		if !slices.Contains(simulator.Services(), simulator.Service(service)) {
			continue
		}
		permitted := false
		for i, rule := range rules {
			if string(services()[rule.Service]) == service &&
				rule.Permits(rule.Service, method, "/"+path) {
				permitted, used[i] = true, true
			}
		}
		if !permitted {
			forbidden = append(forbidden, call)
		}
	}
	for i, rule := range rules {
		if !used[i] {
			unused = append(unused, rule)
		}
	}
	slices.Sort(forbidden)
	return forbidden, unused
}
