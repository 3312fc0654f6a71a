package broken

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// builder makes the objects of a situation.
type builder struct {
	Situation

	from              *source
	world             World
	step, title, kind string
	// suffix and hash make names and IDs distinct.
	suffix      string
	hash        uint32
	last        map[string]*unstructured.Unstructured
	made        []*unstructured.Unstructured
	fixed       map[string]string
	placeholder *regexp.Regexp
	err         error
}

func (s *source) situation(
	w World, f fault, driver, kind string, flavour Flavour,
) (Situation, error) {
	b := &builder{
		from: s, world: w, step: f.Step, title: driver, kind: kind,
		last:        map[string]*unstructured.Unstructured{},
		placeholder: regexp.MustCompile(`<([^<>]*)>`),
	}
	b.Name = strings.Join([]string{f.Step, f.Name, driver, kind, string(flavour)}, "/")
	b.Flavour, b.Names = flavour, map[string]string{}
	if w.Distinct {
		hash := fnv.New32a()
		fmt.Fprint(hash, b.Name)
		b.hash = hash.Sum32()
		b.suffix = "-" + strconv.FormatUint(uint64(hash.Sum32()%46656), 36)
	}
	b.setFixed()
	b.gib("1", "-1") // what a quota has left
	b.items([]any{"nodes"}, nil)
	b.items(f.Items, nil)
	if w.Noise {
		b.items([]any{"noise"}, nil)
	}
	about := map[string]string{
		"pv": "pvc-<volume.id>", "storageclass": "<class>", "pvc": "<claim>",
		"volumesnapshot": "<snapshot>", "volumesnapshotcontent": "snapcontent-<content.id>",
		"volumeattachment": "csi-<node-a>",
	}[kind]
	name := b.text(cmp.Or(f.About, about, "<"+kind+">"), nil)
	b.Args = []string{"why", kind + "/" + name, "-n", b.name("ns")}
	if flavour == Managed {
		b.Args = append(b.Args, "--management-namespace="+ControlPlane)
	}
	for _, fact := range f.Facts {
		b.Answer.Facts = append(b.Answer.Facts, b.text(fact, nil))
	}
	b.Answer.Never = f.Never
	for _, one := range b.made {
		b.Objects = append(b.Objects, *one)
	}
	return b.Situation, b.err
}

func (b *builder) fail(err error) { b.err = cmp.Or(b.err, err) }

func (b *builder) items(all []any, arg any) {
	for _, item := range all {
		if name, ok := item.(string); ok {
			b.item(name, nil, arg)
			continue
		}
		for name, value := range item.(map[string]any) {
			b.item(name, value, arg)
		}
	}
}

func (b *builder) item(name string, value, arg any) {
	words := strings.Fields(name)
	group, isGroup := b.from.groups[name].([]any)
	switch {
	case words[0] == "if":
		if slices.Contains(words, b.kind) || slices.Contains(words, b.title) {
			b.items(value.([]any), arg)
		}
	case words[0] == "without":
		for _, gone := range b.expand(value, arg).([]any) {
			b.without(gone.(string))
		}
	case words[0] == "event":
		b.event(words[1], eventOf{words[2], words[3], b.text(words[4], arg), words[5]},
			b.text(value.(string), arg))
	case words[0] == "fails":
		b.fails(words[1], words[2], b.text(words[3], arg), b.text(value.(string), arg))
	case isGroup:
		b.items(group, b.expand(value, arg))
	default:
		b.object(name, value, arg)
	}
}

// object adds an object with changes, or changes the one that was added before.
func (b *builder) object(name string, change, arg any) {
	id, role, _ := strings.Cut(name, "/")
	template := b.from.objects[id]
	if template == nil {
		b.fail(fmt.Errorf("%s is neither an object nor a group", name))
		return
	}
	of := it{arg, role}
	whole := merged(b.expand(template, of), b.expand(change, of)).(map[string]any)
	key := func(u unstructured.Unstructured) string {
		return u.GetKind() + " " + u.GetNamespace() + "/" + u.GetName()
	}
	added := &unstructured.Unstructured{Object: whole}
	i := slices.IndexFunc(b.made, func(o *unstructured.Unstructured) bool {
		return key(*o) == key(*added)
	})
	if i >= 0 {
		added = b.made[i]
		added.Object = merged(added.Object, b.expand(change, of)).(map[string]any)
	} else {
		added.SetUID(types.UID(added.GetNamespace() + "/" + added.GetName()))
		b.made = append(b.made, added)
	}
	b.last[name] = added
}

// it is an argument with the role after the slash of an object's name.
type it struct {
	arg  any
	role string
}

// merged replaces what differs.
func merged(base, change any) any {
	to, isMap := change.(map[string]any)
	from, wasMap := base.(map[string]any)
	if change == nil {
		return base
	}
	if !isMap || !wasMap {
		return change
	}
	all := maps.Clone(from)
	for key, value := range to {
		if value == nil {
			delete(all, key)
		} else {
			all[key] = merged(from[key], value)
		}
	}
	return all
}

func (b *builder) without(name string) {
	if strings.Contains(name, " ") {
		b.Gone = append(b.Gone, name)
		return
	}
	gone := b.last[name]
	if gone == nil {
		b.fail(errors.New("no such object: " + name))
	}
	b.made = slices.DeleteFunc(b.made, func(o *unstructured.Unstructured) bool { return o == gone })
}

// expand replaces the placeholders in all strings of a value. An argument can be any value.
func (b *builder) expand(value, arg any) any {
	switch v := value.(type) {
	case map[string]any:
		all := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) { // the order of names
			all[b.text(key, arg)] = b.expand(v[key], arg)
		}
		return all
	case []any:
		all := make([]any, len(v))
		for i, one := range v {
			all[i] = b.expand(one, arg)
		}
		return all
	case string:
		if v == "<arg.status>" {
			return b.argument(v[1:len(v)-1], arg)
		}
		return b.text(v, arg)
	case float64:
		return int64(v) // as clients decode integers
	}
	return value
}

func (b *builder) argument(key string, arg any) any {
	if of, ok := arg.(it); ok {
		arg = of.arg
	}
	if _, field, ok := strings.Cut(key, "."); ok {
		if fields, ok := arg.(map[string]any); ok {
			return fields[field]
		}
	}
	return arg
}

// text replaces placeholders, those inside others first.
func (b *builder) text(s string, arg any) string {
	for strings.Contains(s, "<") {
		next := b.placeholder.ReplaceAllStringFunc(s, func(found string) string {
			return b.value(found[1:len(found)-1], arg)
		})
		if next == s {
			return s
		}
		s = next
	}
	return s
}

// value returns what replaces a placeholder.
func (b *builder) value(key string, arg any) string {
	function, rest, _ := strings.Cut(key, " ")
	words := strings.Fields(rest)
	switch {
	case strings.HasPrefix(key, "arg"):
		return fmt.Sprint(b.argument(key, arg))
	case strings.HasPrefix(key, "it"):
		return b.value(arg.(it).role+strings.TrimPrefix(key, "it"), nil)
	case function == "ago":
		return b.ago(rest).Format(time.RFC3339)
	case function == "micro":
		return b.ago(rest).Format("2006-01-02T15:04:05.000000Z07:00")
	case function == "gib":
		return b.gib(words[0], words[1])
	case function == "quote":
		return strconv.Quote(rest)
	case rest != "":
		return b.failure(function, rest)
	case strings.HasSuffix(key, ".id"):
		return b.id(strings.TrimSuffix(key, ".id"))
	}
	if fixed, ok := b.fixed[key]; ok {
		return fixed
	}
	return b.name(key)
}

// setFixed sets the names that nobody chooses.
func (b *builder) setFixed() {
	names := []string{
		"cinder", "Cinder", "ReadWriteOnce", "openshift-cluster-csi-drivers",
		"openstack-cinder-csi-driver-controller", "manila", "Manila",
	}
	if b.title == "manila" {
		names = []string{
			"manila", "Manila", "ReadWriteMany", "openshift-manila-csi-driver",
			"openstack-manila-csi-controllerplugin", "cinder", "Cinder",
		}
	}
	b.fixed = map[string]string{
		"title": names[0], "Title": names[1], "mode": names[2], "operands": names[3],
		"controller": names[4], "other": names[5] + ".csi.openstack.org", "Other": names[6],
		"driver": names[0] + ".csi.openstack.org", "lease": names[0] + "-csi-openstack-org",
		"controlplane": names[3], "login": b.login(),
	}
	if b.Flavour != Standalone {
		b.fixed["controlplane"] = "management cluster"
	}
}
