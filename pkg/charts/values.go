package charts

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// Values are values of the chart openstack-csi.
type Values struct {
	// Objects are those in a file, or the file of a tool, that contain values of a chart.
	Objects []map[string]any

	content map[string]any
	notes   []note
	rows    []Row
	// named says which StorageClasses name a cloud of several.
	named string
	// added are the drivers for which a file contains values of a chart.
	added map[choice.Kind]bool
	// logins are those that were found, by driver, and trusted other CAs that the drivers trust.
	logins  map[choice.Kind]*clouds.Login
	trusted string
	// noLogin is true if the login of a driver is not known. Another one may be of another project.
	noLogin bool
}

// note is what an administrator must know about values of another chart, or about an object.
type note struct {
	about []string
	text  string
}

// New returns no values.
func New() (*Values, error) {
	rows, err := Rows()
	return &Values{
		content: map[string]any{}, rows: rows, logins: map[choice.Kind]*clouds.Login{},
		added: map[choice.Kind]bool{},
	}, err
}

// Remark adds what an administrator must know. It contains no secret.
func (v *Values) Remark(about, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for i := range v.notes {
		if one := &v.notes[i]; one.text == text {
			if !slices.Contains(one.about, about) {
				one.about = append(one.about, about)
			}
			return
		}
	}
	v.notes = append(v.notes, note{[]string{about}, text})
}

// Remarks returns what has no equal, and what else to do, without characters that a terminal obeys.
func (v *Values) Remarks() (all []string) {
	plain := func(r rune) rune {
		if unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return r
		}
		return '?'
	}
	for _, n := range v.notes {
		all = append(all, strings.Map(plain, strings.Join(n.about, ", ")+": "+n.text))
	}
	return all
}

// YAML returns the values, with the remarks as comments before them.
func (v *Values) YAML() ([]byte, error) {
	var text bytes.Buffer
	for _, remark := range v.Remarks() {
		fmt.Fprintf(&text, "# %s\n", strings.Join(strings.Fields(remark), " "))
	}
	content, err := yaml.Marshal(v.content)
	text.Write(content)
	return text.Bytes(), err
}

func title(kind choice.Kind) string { return strings.TrimSuffix(string(kind), "Config") }

func lower(kind choice.Kind) string { return strings.ToLower(title(kind)) }

// Set sets a value, whose path begins with the name of a driver or not, unless an operator would
// refuse it. The remark about that names what the value comes from.
func (v *Values) Set(kind choice.Kind, path string, value any, from string) {
	if strings.HasSuffix(path, ".affinity") && selectOurs(kind, value) {
		v.Remark(from, "Where it names pods of the other chart, it now names those of ours.")
	}
	// A password may look like a variable.
	if text, ok := value.(string); ok && !strings.HasPrefix(path, "credentials.") &&
		position.FilledIn(text) {
		v.Remark(from, "Another program fills it in: set %s yourself.", path)
		return
	}
	if fault := faultOf(kind, path, value); fault != "" {
		v.Remark(from, "%s is not taken over: %s", path, fault)
		return
	}
	v.content = merged(v.content, nested(path, value))
}

// faultOf returns why an operator would refuse a value, "" for nothing.
func faultOf(kind choice.Kind, path string, value any) string {
	path = strings.TrimPrefix(path, lower(kind)+".spec.")
	first, _, _ := strings.Cut(path, ".")
	if text, ok := value.(string); ok && path == "clusterID" {
		return strings.Join(validation.IsValidLabelValue(text), ". ")
	}
	isChoice := func(f reflect.StructField) bool { return choice.FieldName(f) == first }
	if !slices.ContainsFunc(choice.Fields(kind, reflect.TypeFor[choice.Config]()), isChoice) {
		return ""
	}
	document := nested(path, value)
	document["apiVersion"], document["kind"] = choice.APIVersion, kind
	text, err := yaml.Marshal(document)
	if err != nil {
		return err.Error()
	}
	var problems []string
	_, faults := choice.Parse(kind, string(text), flavour.Of(false))
	for _, f := range faults {
		problems = append(problems, f.Problem)
	}
	return strings.Join(problems, ". ")
}

// AddChart adds the equals of the values of a chart, and remarks about those without one. Without
// the defaults of the chart, each value is one that a user has set.
func (v *Values) AddChart(kind choice.Kind, values, defaults map[string]any) error {
	v.Set(kind, lower(kind)+".enabled", true, "")
	if kind == choice.Cinder {
		v.Set(kind, "cinder.spec.sidecars.claimMetadata", true, "") // the chart offers no choice
	} else if _, err := v.protocols(values); err != nil {
		return err
	}
	if text, ok := lookUp(values, "csimanila.runtimeConfig.jsonData").(string); ok &&
		isOn(values, "csimanila.runtimeConfig.enabled", false) {
		v.AddRuntimeConfig([]byte(text))
	}
	if kind == choice.Cinder && !isOn(values, "storageClass.enabled", true) {
		if isEmpty(lookUp(values, "storageClass.custom")) {
			v.Set(kind, "cinder.spec.storageClassState", "Unmanaged", "")
		} else {
			v.Remark("Cinder: storageClass.enabled", "The operator creates the StorageClass standard-csi "+
				"beside yours; to write none, set cinder.spec.storageClassState to Unmanaged.")
		}
	}
	v.walk(kind, "", values, defaults)
	for _, row := range v.rows {
		for _, name := range row.Of(kind) {
			if usual := row.Default[name]; usual != nil && lookUp(values, name) == nil {
				v.translate(kind, row, name, usual)
			}
		}
	}
	for _, side := range []string{"controllerPlugin", "nodePlugin"} {
		// The plugin and its provisioner need topology both.
		if settingsOf(lookUp(values, "csi.plugin."+side+".extraArgs"))["with-topology"] == "false" {
			v.Set(kind, lower(kind)+".spec.topology", choice.Disabled, "")
		}
	}
	return nil
}

// row returns the index of the row about a value of a chart, -1 for none.
func (v *Values) row(kind choice.Kind, name string) int {
	return slices.IndexFunc(v.rows, func(r Row) bool { return r.Match(kind, name) != "" })
}

// walk translates a value of a chart, or those below it.
func (v *Values) walk(kind choice.Kind, name string, value any, usual any) {
	i := v.row(kind, name)
	below, isMap := value.(map[string]any)
	switch {
	case i >= 0 && usual != nil && reflect.DeepEqual(value, usual) && v.rows[i].Default[name] == nil:
	case i >= 0 && isEmpty(value) && (value == nil || !strings.HasSuffix(name, "olerations")):
		if !isEmpty(usual) {
			v.Remark(title(kind)+": "+name, "It is empty there; here its default applies.")
		}
	case i >= 0:
		v.translate(kind, v.rows[i], name, value)
	case isMap:
		for _, step := range slices.Sorted(maps.Keys(below)) {
			defaults, _ := usual.(map[string]any)
			v.walk(kind, strings.TrimPrefix(name+"."+step, "."), below[step], defaults[step])
		}
	case value != nil && !reflect.DeepEqual(value, usual):
		v.Remark(title(kind)+": "+name, "docs/charts.md knows no such value.%s",
			cmp.Or(equalIn(kind, name), v.equalsIn(kind, name)))
	}
}

// equalsIn names the equals of other values in the section of a value, "" for none or many.
func (v *Values) equalsIn(kind choice.Kind, name string) string {
	const many = 4
	section := name[:max(strings.LastIndex(name, "."), 0)]
	var found []string
	for _, row := range v.rows {
		isIn := func(value string) bool { return strings.HasPrefix(value, section+".") }
		here := strings.ReplaceAll(row.Here, "DRIVER", lower(kind))
		if here != "" && section != "" && slices.ContainsFunc(row.Of(kind), isIn) {
			found = append(found, here)
		}
	}
	if slices.Sort(found); len(found) == 0 || len(found) > many {
		return ""
	}
	return " Equals of others in " + section + " are " +
		strings.Join(slices.Compact(found), ", ") + "."
}

var (
	podsOf = regexp.MustCompile(`(?i)(node|controller)plugin`)
	link   = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)
)

// translate sets the equal of a value, or remarks that there is none.
func (v *Values) translate(kind choice.Kind, row Row, name string, value any) {
	about := title(kind) + ": " + name
	if row.By == "code" {
		return
	}
	if row.By == "settings" {
		others := v.addSettings(kind, row, about, value)
		if len(others) == 0 {
			return
		}
		about += " (" + strings.Join(others, ", ") + ")"
	}
	if text := row.Note + row.Why; text != "" {
		v.Remark(about, "%s", link.ReplaceAllString(strings.Join(strings.Fields(text), " "),
			"$1 (docs/$2)"))
	}
	if row.Here == "" || row.By == "hand" {
		return
	}
	if word := row.Words[fmt.Sprint(value)]; word != "" {
		value = word
	} else if row.Words != nil {
		v.Remark(about, "%v has no equal.", value)
		return
	}
	if objects, ok := value.([]any); ok && row.By == "names" {
		names, _ := lookUp(v.content, row.Here).([]any) // of the other chart
		for _, one := range objects {
			fields, _ := one.(map[string]any)
			if !slices.Contains(names, fields["name"]) {
				names = append(names, fields["name"])
			}
		}
		value = names
	}
	target, _, _ := strings.Cut(row.Here, ", ")
	target = strings.ReplaceAll(target, "DRIVER", lower(kind))
	sides := []string{"node", "controller"}
	if of := podsOf.FindStringSubmatch(name); of != nil {
		sides = []string{strings.ToLower(of[1])}
	}
	if !strings.Contains(target, "*") {
		sides = sides[:1]
	}
	for _, side := range sides {
		v.Set(kind, strings.Replace(target, "*", side, 1), value, about)
	}
}

// About returns what the remarks are about.
func (v *Values) About() (all []string) {
	for _, n := range v.notes {
		for _, about := range n.about {
			if !slices.Contains(all, about) {
				all = append(all, about)
			}
		}
	}
	return all
}
