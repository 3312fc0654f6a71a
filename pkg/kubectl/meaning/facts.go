package meaning

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

// factsOf returns the parts of an error for conditions and texts of the table.
func factsOf(f fault.Fault, reason string) facts {
	known := facts{}
	for noun, name := range f.Names {
		// A PersistentVolume may have the name pvc-ID, which OpenStack does not know.
		if noun != fault.Volume && noun != fault.Share || isID(name) {
			known[string(noun)] = name
		}
	}
	known["at"] = placeOf(known["url"], known["address"])
	if id := requestOf(f.Text); id != "" {
		known["request"] = " (" + id + ")"
	}
	maps.Copy(known, facts{
		"reason": reason, "reporter": string(f.Reporter), "operation": f.Operation, "code": f.Code,
		"leaf": string(f.Leaf), "message": clean(f.Message),
	})
	known["thing"], known["id"] = thingOf(f)
	if c := f.Command; c != nil {
		maps.Copy(known, facts{"command": c.Name, "exit": c.Exit, "options": optionsOf(c)})
		for argument := range strings.FieldsSeq(c.Arguments) {
			if server, _, found := strings.Cut(argument, ":/"); found { // of NFS
				known["server"] = "server " + server
			}
		}
		known["message"] = clean(c.Output + " " + c.Exit)
	}
	if q := f.Quota; q != nil {
		maps.Copy(known, facts{"quota": q.Name, "exceeded": exceeded(q)})
	}
	if a := f.Answer; a != nil {
		maps.Copy(known, facts{
			"http": strconv.Itoa(a.Status), "kind": a.Kind, "method": a.Method, "service": a.Service,
			"collection": a.Resource, "cloud": cloudName(a.Service), "message": clean(a.Message),
		})
	}
	return known.with(nil)
}

// thingOf returns what the request is about, in the words of the client of OpenStack, such as
// "share snapshot", and its ID: what the URL names, else what the error or the caller names.
func thingOf(f fault.Fault) (thing, id string) {
	a := f.Answer
	if a == nil {
		a = &fault.Answer{}
	}
	parts := strings.Split(a.URL, "/")
	for i := len(parts) - 1; i > 0; i-- {
		collections := []string{"volumes", "shares", "snapshots", "backups"}
		if !isID(parts[i]) || !slices.Contains(collections, parts[i-1]) {
			continue
		}
		thing := strings.TrimSuffix(parts[i-1], "s")
		if thing != a.Service {
			thing = strings.TrimSpace(a.Service + " " + thing)
		}
		return thing, parts[i]
	}
	if id := f.Names[fault.Snapshot]; f.Operation == "DeleteSnapshot" && isID(id) {
		if f.Names[fault.Share] != "" {
			return "share snapshot", id
		}
		return "volume snapshot", id
	}
	for _, noun := range []fault.Noun{fault.Share, fault.Volume} {
		if _, named := f.Names[noun]; named {
			return string(noun), ""
		}
	}
	return "", ""
}

// optionsOf returns the options of a mount that are not those of every driver.
func optionsOf(c *fault.Command) string {
	_, options, _ := strings.Cut(" "+c.Arguments, " -o ")
	options, _, _ = strings.Cut(options, " ")
	return strings.Join(slices.DeleteFunc(strings.Split(options, ","), func(option string) bool {
		return slices.Contains([]string{"", "defaults", "bind", "remount", "rw"}, option)
	}), ",")
}

// exceeded returns what a ResourceQuota has left. Its message names only what is exceeded.
func exceeded(q *fault.Quota) string {
	var all []string
	for _, resource := range slices.Sorted(maps.Keys(q.Requested)) {
		all = append(all, fmt.Sprintf("%s of %s of %s are used, %s more requested", q.Used[resource],
			q.Limited[resource], resource, q.Requested[resource]))
	}
	if len(all) > 1 { // which of them does not matter
		return fmt.Sprintf("%s (and %d more)", all[0], len(all)-1)
	}
	return strings.Join(all, "")
}

// cloudName returns the name of a service of OpenStack.
func cloudName(service string) string {
	return map[string]string{
		"compute": "Nova", "volume": "Cinder", "share": "Manila", "identity": "Keystone",
	}[service]
}

// placeOf returns the host of a URL, else an address, such as "10.0.0.1:443".
func placeOf(address, otherwise string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return otherwise
}

// requestOf returns the ID of a request of OpenStack in a text: "req-" and a UUID.
func requestOf(text string) string {
	_, id, _ := strings.Cut(text, "req-")
	if id = id[:min(len(id), idLength)]; !isID(id) {
		return ""
	}
	return "req-" + id
}

const idLength = len("00000000-0000-0000-0000-000000000000")

// isID returns whether a name is a UUID.
func isID(name string) bool {
	return len(name) == idLength && strings.Count(name, "-") == 4 &&
		strings.Trim(name, "0123456789abcdef-") == ""
}

// with returns facts with others, with the ID of the volume or share, and with what is left of a
// limit, or whether a size is over it, if they are known.
func (f facts) with(others facts) facts {
	all := maps.Clone(f)
	maps.Copy(all, others)
	for _, noun := range []string{"share", "volume"} {
		if isID(all[noun]) && (all["id"] == "" || others[noun] != "") {
			all["thing"], all["id"] = noun, all[noun]
		}
	}
	limit, err := strconv.Atoi(all["limit"])
	if used, err2 := strconv.Atoi(all["used"]); err == nil && err2 == nil {
		all["left"] = strconv.Itoa(max(limit-used, 0))
	}
	if size, err2 := strconv.Atoi(all["size"]); err == nil && err2 == nil && size > limit {
		all["over"] = "yes"
	}
	return all
}

// fill returns a text of the table with facts in place of their names: {name}, or {name|what to
// write if it is missing}. Facts that are texts of others, and not names, are shortened.
func (f facts) fill(text string) string {
	before, rest, found := strings.Cut(text, "{")
	if !found {
		return text
	}
	name, rest, _ := strings.Cut(rest, "}")
	name, missing, _ := strings.Cut(name, "|")
	value := f[name]
	if name != "again" { // commands
		value = diagnosis.Ends(value, longest)
	}
	return before + cmp.Or(value, missing) + f.fill(rest)
}
