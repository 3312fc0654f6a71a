package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// The Helm chart: the folder with what is written by hand, which is not a layer, and the output.
const (
	chartFolder    = "helm"
	chartGenerated = chartFolder + "/generated/openstack-csi"
	chartSchema    = chartGenerated + "/values.schema.json"
)

// chart returns the files of the Helm chart, by their paths, or none if the assets folder does not
// contain it. The objects of the kustomizations that kubectl applies are
// data of the chart, one file for each kustomization; its templates change them by the values.
func chart(fsys fs.FS) (map[string][]byte, error) {
	if _, err := fs.Stat(fsys, chartFolder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files := map[string][]byte{}
	var errs []error
	for pattern, folder := range map[string]string{
		"helm/*.*": "", "helm/templates/*": "templates", "crds/generated/*": "crds",
		"csi-addons/crd/generated/*": "files/csi-addons", "snapshots/generated/*": "files/snapshots",
		"snapshots/controller.yaml":         "files/snapshots",
		"monitoring/kubernetes/alerts.yaml": "files/monitoring",
		dashboardGenerated + "/*":           "files/monitoring",
	} {
		errs = append(errs, eachFile(fsys, pattern, func(file string, text []byte) error {
			files[path.Join(chartGenerated, folder, path.Base(file))] = text
			return nil
		}))
	}
	for _, data := range []struct {
		pattern, folder string
		name            int // the element of the path that names the file
	}{
		{"drivers/*/generated/kubernetes/operator/kustomization.yaml", "files/drivers", 1},
		{"csi-addons/install/kubernetes/kustomization.yaml", "files/csi-addons/install", 2},
	} {
		errs = append(errs, eachFile(fsys, data.pattern, func(file string, _ []byte) error {
			i, err := kustomized(fsys, path.Dir(file), flavour.Kubernetes)
			if err != nil {
				return err
			}
			text := generatedHeader
			for n, asset := range i.sorted() {
				if n > 0 {
					text += "---\n"
				}
				text += string(asset.Data)
			}
			name := strings.Split(file, "/")[data.name] + ".yaml"
			files[path.Join(chartGenerated, data.folder, name)] = []byte(text)
			return nil
		}))
	}
	schema, err := valuesSchema(fsys, files[chartSchema])
	files[chartSchema] = schema
	return files, errors.Join(append(errs, err)...)
}

func eachFile(fsys fs.FS, pattern string, do func(file string, text []byte) error) error {
	names, err := fs.Glob(fsys, pattern)
	errs := []error{err}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err == nil {
			err = do(name, text)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// valuesSchema adds the schemas of the objects that values configure to the definitions of the
// chart's schema. Helm does not ask the API server to refuse wrong values, so the schema does.
func valuesSchema(fsys fs.FS, text []byte) ([]byte, error) {
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", chartSchema, err)
	}
	definitions, _ := schema["$defs"].(map[string]any)
	specs := map[string]any{}
	err := eachFile(fsys, "crds/generated/*", func(file string, text []byte) error {
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &crd.Object); err != nil {
			return fmt.Errorf("decoding %s: %w", file, err)
		}
		plural, _, _ := strings.Cut(crd.GetName(), ".")
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil || len(versions) == 0 {
			return fmt.Errorf("%s has no version: %w", file, err)
		}
		spec, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema",
			"openAPIV3Schema", "properties", "spec")
		sealed(spec, definitions)
		specs[plural] = spec
		return err
	})
	if err != nil {
		return nil, err
	}
	maps.Copy(definitions, specs)
	addNull(schema)
	text, err = json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// sealed makes the objects in a schema refuse unknown fields, and says in the language of JSON
// schemas what API servers find out otherwise: rules about keys of maps and about sets, and by the
// definition with the name of a field what Kubernetes requires of this field.
func sealed(schema, definitions map[string]any) {
	rules, _ := schema["x-kubernetes-validations"].([]any)
	names := map[string]any{}
	for _, rule := range rules {
		rule, _ := rule.(map[string]any)
		text, _ := rule["rule"].(string)
		if keys := keysRule().FindStringSubmatch(text); keys != nil {
			names["pattern"] = keys[3]
			if keys[2] != "" { // without regard to case, but only for these letters
				names["pattern"] = regexp.MustCompile(`\[(-?)a-z`).ReplaceAllString(keys[3], "[${1}A-Za-z")
			}
			if limit, err := strconv.Atoi(keys[1]); err == nil {
				names["minLength"], names["maxLength"] = 1, limit
			}
		}
		if reserved := reservedRule().FindStringSubmatch(text); reserved != nil {
			names["not"] = map[string]any{"pattern": reserved[1]}
		}
		if own := textRule().FindStringSubmatch(text); own != nil {
			schema["pattern"], schema["$comment"] = own[1], rule["message"]
		}
		if text == "self.all(a, self.exists_one(b, a == b))" {
			schema["uniqueItems"] = true
		}
	}
	if len(names) > 0 {
		schema["propertyNames"] = names
	}
	delete(schema, "default")
	maps.DeleteFunc(schema, func(name string, _ any) bool {
		return strings.HasPrefix(name, "x-kubernetes-")
	})
	properties, _ := schema["properties"].(map[string]any)
	if properties != nil {
		schema["additionalProperties"] = false
	}
	for name, property := range properties {
		property := property.(map[string]any)
		if definitions[name] != nil {
			property["$ref"] = "#/$defs/" + name
		}
		sealed(property, definitions)
	}
	for _, name := range []string{"items", "additionalProperties"} {
		if child, ok := schema[name].(map[string]any); ok {
			sealed(child, definitions)
		}
	}
}

// addNull makes a schema accept null in place of each value that may be missing, at any depth: the
// templates remove it, as Helm does with defaults.
func addNull(value any) {
	schema, ok := value.(map[string]any)
	if !ok {
		return
	}
	orNull := func(null, child any) any {
		addNull(child)
		return map[string]any{"if": null, "else": child}
	}
	null := map[string]any{"type": "null"}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(map[string]any)
	for name, child := range properties {
		if slices.Contains(required, any(name)) {
			addNull(child)
			continue
		}
		properties[name] = orNull(null, child)
	}
	if child, ok := schema["additionalProperties"].(map[string]any); ok {
		schema["additionalProperties"] = orNull(null, child)
	}
	dependent, _ := schema["dependentSchemas"].(map[string]any)
	for name, child := range dependent {
		dependent[name] = orNull(map[string]any{"properties": map[string]any{name: null}}, child)
	}
	definitions, _ := schema["$defs"].(map[string]any)
	for _, child := range definitions {
		addNull(child)
	}
	alternatives, _ := schema["anyOf"].([]any)
	for _, child := range append(alternatives, schema["items"]) {
		addNull(child)
	}
}

// keysRule matches a rule about the keys of a map: their maximum length, whether case matters, and
// their pattern.
func keysRule() *regexp.Regexp {
	return regexp.MustCompile(`^self\.all\(k, (?:k != '' && size\(k\) <= (\d+) && )?` +
		`k(\.lowerAscii\(\))?\.matches\(r'(.*)'\)\)$`)
}

func textRule() *regexp.Regexp { return regexp.MustCompile(`^self\.matches\(r'(.*)'\)$`) }

// reservedRule matches a rule about keys that a map does not contain.
func reservedRule() *regexp.Regexp {
	return regexp.MustCompile(`^!self\.exists\(k, k\.matches\(r'(.*)'\)\)$`)
}
