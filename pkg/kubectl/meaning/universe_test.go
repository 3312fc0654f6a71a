package meaning

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/kubectl/fault"
)

const id = "1f0b6d0e-52a7-4f0a-9d55-9b0c1c7e4b01"

// names are what stands for objects, other words and sizes in a text.
type names struct{ object, word, number string }

// entry is a line of a list of the universe.
type entry struct {
	list   string
	fields []string
}

// TestEachEntryIsJudged composes the text of each entry as its component prints it, parses it and
// asks what it means. The file enough.txt lists those whose text is enough. No meaning depends on
// the names and sizes in the text.
func TestEachEntryIsJudged(t *testing.T) {
	t.Parallel()
	enough := map[string]bool{}
	for _, line := range lines(t, "enough.txt") {
		enough[line] = true
	}
	left, entries := len(enough), universe(t)
	unfilled := regexp.MustCompile(`\{\w`)
	words := []string{"quota", "401", "error", "denied"}
	for i, e := range entries {
		text, reason := e.compose(t, names{id, "nova", "40"})
		m, by := judge(fault.Parse(text), reason)
		judged := m.Stops != "" && !slices.ContainsFunc(by.when, func(c condition) bool {
			return c.fact == "code"
		})
		name := e.list + "\t" + strings.Join(e.fields, "\t")
		assert.Check(t, judged != enough[name], "judged=%v: %s\n\t%s\n\t%s", judged, name, text, m.Stops)
		assert.Check(t, !enough[name] || e.list != "openstack" || e.fields[1][0] != '4',
			"OpenStack refused a request for a reason: %s", name)
		for _, said := range []string{m.Stops, m.Next} {
			isShort := utf8.RuneCountInString(said) <= limit+2*longest
			assert.Check(t, isShort && !unfilled.MatchString(said), said)
		}
		word := words[i%len(words)]
		text, reason = e.compose(t, names{word, word, "401"})
		_, mutated := judge(fault.Parse(text), reason)
		assert.Check(t, slices.Equal(by.says, mutated.says), "%s: %s\n\t%v\n\t%v", word, text,
			by.says, mutated.says)
		delete(enough, name)
	}
	assert.Check(t, len(enough) == 0, "not in any list: %v", enough)
	assert.Check(t, left*10 <= len(entries)*3, "the text is enough: %d of %d", left, len(entries))
	t.Logf("%d entries, of %d the text is enough", len(entries), left)
}

// TestListsContainWhatIsInstalled checks that the lists are those of the images in the assets.
func TestListsContainWhatIsInstalled(t *testing.T) {
	t.Parallel()
	image := regexp.MustCompile(
		`/((cinder|manila)-csi-plugin|csi-(provisioner|attacher|resizer|snapshotter)):(v[0-9.]+)`)
	found := map[string]bool{}
	for _, driver := range []string{"cinder", "manila"} {
		deployment, err := os.ReadFile("../../../assets/drivers/" + driver +
			"/generated/hypershift/operator/control-plane/deployment.yaml")
		assert.NilError(t, err)
		for _, match := range image.FindAllStringSubmatch(string(deployment), -1) {
			list, err := os.ReadFile("testdata/universe/" + cmp.Or(match[2], "sidecars") + ".txt")
			assert.NilError(t, err)
			source := regexp.MustCompile(`# \S*` + match[3] + `\S* \S*` + match[4] + `[,:]`)
			assert.Check(t, source.Match(list), "%s: add this version to hack/universe/sources.txt",
				match[0])
			found[match[1]] = true
		}
	}
	assert.Check(t, len(found) == 6, "%v", found)
}

func lines(t *testing.T, file string) (all []string) {
	t.Helper()
	content, err := os.ReadFile("testdata/universe/" + file)
	assert.NilError(t, err)
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimRight(line, "\n"); !strings.HasPrefix(line, "#") {
			all = append(all, line)
		}
	}
	return all
}

// universe returns all entries, without the versions at the end of their lines.
func universe(t *testing.T) (all []entry) {
	t.Helper()
	for _, list := range []string{
		"cinder", "manila", "nfs", "mount", "sidecars", "kubelet", "libraries", "openstack", "events",
		"admission",
	} {
		for _, line := range lines(t, list+".txt") {
			fields := strings.Split(line, "\t")
			if list != "openstack" {
				fields = fields[:len(fields)-1]
			}
			all = append(all, entry{list: list, fields: fields})
		}
	}
	// What the real drivers printed: the driver, what they did, and the error.
	for _, line := range lines(t, "../../../fault/testdata/drivers.txt") {
		all = append(all, entry{list: "drivers", fields: strings.SplitN(line, ": ", 3)})
	}
	return append(all, recorded(t)...)
}

// recorded returns the errors that real services answered, from the comparison with the simulator.
func recorded(t *testing.T) (all []entry) {
	t.Helper()
	content, err := os.ReadFile("../../../test/openstack/comparison/testdata/answers.json")
	assert.NilError(t, err)
	var answers map[string]map[string]string
	assert.NilError(t, json.Unmarshal(content, &answers))
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		for path, said := range answers[name] {
			kind, found := strings.CutSuffix(strings.TrimPrefix(path, "."), ".message")
			status := answers[name]["."+kind+".code"]
			var message string
			if found && status != "" && json.Unmarshal([]byte(said), &message) == nil {
				service := map[string]string{"error": "keystone"}[kind]
				message = regexp.MustCompile(`\{\w+\}`).ReplaceAllString(message, id)
				fields := []string{cmp.Or(service, "cinder"), status, kind, message}
				all = append(all, entry{list: "openstack", fields: fields})
			}
		}
	}
	assert.Check(t, len(all) > 80)
	return all
}

// compose returns a text of the entry as it is in a cluster, and the reason of an event.
func (e entry) compose(t *testing.T, n names) (text, reason string) {
	t.Helper()
	f := e.fields
	switch e.list {
	case "drivers":
		return strings.ReplaceAll(f[2], `\n`, "\n"), ""
	case "openstack":
		return answer(t, f[0], f[1], f[2], n.sample(f[3], "")), ""
	case "mount":
		printed := map[string]string{"mount": "mount: /x: ", "umount": "umount: /x: "}[f[0]]
		return `MountVolume.SetUp failed for volume "pvc-` + n.object + `" : rpc error: code = ` +
			"Internal desc = mount failed: exit status 32\nMounting command: mount\nMounting " +
			"arguments: -t nfs a:/b /x\nOutput: " + cmp.Or(printed, f[0]+": ") + n.sample(f[1], ""), ""
	case "events":
		if f[0] == "scheduler" {
			return "0/3 nodes are available: 3 " + n.sample(f[2], "") + ".", f[1]
		}
		return n.sample(f[2], "details of the event"), f[1]
	case "admission":
		switch said := n.sample(f[1], "details"); f[0] {
		case "forbidden":
			return `Error creating: pods "db-0" is forbidden: ` + said, ""
		case "PodSecurity":
			return `Error creating: pods "db-0" is forbidden: violates PodSecurity "restricted:latest": ` +
				said + ` (container "x" must set it)`, ""
		default:
			return `PersistentVolumeClaim "data" is invalid: spec.resources: ` + f[0] + `: ` + said, ""
		}
	}
	inner := leaves(t)[f[2]]
	if e.list == "libraries" && f[2] == "driver" {
		inner = leaves(t)["exit"]
	}
	said := n.sample(f[1], inner)
	if code := f[0]; code != "-" || e.list != "sidecars" && e.list != "kubelet" {
		code = strings.NewReplacer("-", "Internal", "*", "Internal").Replace(code)
		said = "rpc error: code = " + code + " desc = " + said
	}
	if strings.Contains(said, "volumes=[") {
		return "Unable to attach or mount volumes: " + said, ""
	}
	if e.list == "kubelet" {
		return `MountVolume.SetUp failed for volume "pvc-` + n.object + `" : ` + said, ""
	}
	return `failed to provision volume with StorageClass "` + n.object + `": ` + said, ""
}

// leaves returns an error of each family.
func leaves(t *testing.T) map[string]string {
	t.Helper()
	missing := answer(t, "cinder", "404", "itemNotFound", "Volume "+id+" could not be found.")
	_, missing, _ = strings.Cut(missing, "with error ")
	return map[string]string{
		"openstack": missing,
		"driver":    missing,
		"mount": "mount failed: exit status 32\nMounting command: mount\nMounting arguments: -t ext4 " +
			"/dev/vdb /x\nOutput: mount: /x: wrong fs type, bad option, bad superblock on /dev/vdb.\n",
		"metadata": `error fetching http://169.254.169.254/openstack/latest/meta_data.json: Get ` +
			`"http://169.254.169.254/openstack/latest/meta_data.json": dial tcp 169.254.169.254:80: ` +
			`connect: connection refused`,
		"exit":    "exit status 1",
		"message": "create: An unknown error occurred.",
		"system":  "stat /dev/vdb: no such file or directory",
		"wait":    "timed out waiting for the condition",
	}
}

// answer returns an unexpected answer of a service, as gophercloud and a driver print it.
func answer(t *testing.T, service, status, kind, message string) string {
	t.Helper()
	if status == "-" {
		return "rpc error: code = Internal desc = failed to create volume pvc-" + id + ": share " + id +
			` is in error state "error": create: ` + message
	}
	code, err := strconv.Atoi(status)
	assert.NilError(t, err)
	body, err := json.Marshal(map[string]any{kind: map[string]any{"code": code, "message": message}})
	assert.NilError(t, err)
	return fmt.Sprintf("rpc error: code = Internal desc = CreateVolume failed with error Expected "+
		"HTTP response code [202] when accessing [POST %s], but got %s instead: %s", map[string]string{
		"cinder":   "https://cinder.example.com:8776/v3/p1/volumes",
		"manila":   "https://manila.example.com:8786/v2/shares",
		"nova":     "https://nova.example.com:8774/v2.1/servers/" + id + "/os-volume_attachments",
		"keystone": "https://keystone.example.com:5000/v3/auth/tokens",
	}[service], status, body)
}

// sample returns a text with the format of Go or Python. An error is in place of the last %v or %w,
// or of the last verb.
func (n names) sample(format, inner string) string {
	format = strings.NewReplacer(`\n`, "\n", "volumes=%v", "volumes=[data]").Replace(format)
	for _, verb := range []string{"%v", "%w", "%"} {
		if i := strings.LastIndex(format, verb); i >= 0 && inner != "" {
			if format[i+1] == 'q' {
				inner = strconv.Quote(inner)
			}
			return n.sample(format[:i], "") + inner + n.sample(format[i+2:], "")
		}
	}
	numbers := regexp.MustCompile(`size|quota|requested|limit|allowed|used|max|min|count|req|number`)
	objects := regexp.MustCompile(`(id|vol|volume|instance|share|snapshot)s?\)$`)
	verbs := regexp.MustCompile(`%(\(\w+\))?[a-z]`)
	return verbs.ReplaceAllStringFunc(format, func(verb string) string {
		switch name := verb[:len(verb)-1]; {
		case verb == "%q":
			return strconv.Quote(n.object)
		case strings.HasSuffix(verb, "d"), numbers.MatchString(name):
			return n.number
		case strings.Contains(name, "stat"):
			return "error"
		case len(name) > 1 && !objects.MatchString(name):
			return n.word
		}
		return n.object
	})
}
