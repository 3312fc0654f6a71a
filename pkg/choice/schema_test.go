package choice_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// definition is a CustomResourceDefinition as the API server uses it.
type definition struct {
	kind       string
	structural *structural.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator
}

// definitionOf returns the definition for the choices of a kind.
func definitionOf(t *testing.T, kind choice.Kind) *definition {
	t.Helper()
	plural := strings.ToLower(strings.Replace(string(kind), "Config", "Driver", 1)) + "s"
	text, err := os.ReadFile(filepath.Join("../../assets/crds/generated", plural+".yaml"))
	assert.NilError(t, err)
	var crd apiextensionsv1.CustomResourceDefinition
	assert.NilError(t, yaml.UnmarshalStrict(text, &crd))
	var schema apiextensions.JSONSchemaProps
	assert.NilError(t, apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &schema, nil))
	d := &definition{kind: crd.Spec.Names.Kind}
	d.structural, err = structural.NewStructural(&schema)
	assert.NilError(t, err)
	d.values, _, err = validation.NewSchemaValidator(&schema)
	assert.NilError(t, err)
	d.rules = cel.NewValidator(d.structural, true, celconfig.PerCallLimit)
	return d
}

func kinds() []choice.Kind { return []choice.Kind{choice.Manila, choice.Cinder} }

// name returns the only name that the rules allow.
func (d *definition) name() string {
	rule := d.structural.XValidations[0].Rule
	return regexp.MustCompile(`'(.*)'`).FindStringSubmatch(rule)[1]
}

// object returns an object with a spec in YAML.
func (d *definition) object(spec string) (map[string]any, error) {
	var content map[string]any
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		return nil, err
	}
	delete(content, "apiVersion")
	delete(content, "kind")
	return map[string]any{
		"apiVersion": "csi.openstack.org/v1alpha1", "kind": d.kind,
		"metadata": map[string]any{"name": d.name()}, "spec": content,
	}, nil
}

// refused returns the paths in the spec that the API server refuses, without `spec.`, those of
// unknown fields too: kubectl asks for strict validation.
func (d *definition) refused(t *testing.T, object map[string]any) []string {
	t.Helper()
	unknown := pruning.PruneWithOptions(object, d.structural, true,
		structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(object, d.structural)
	errs := validation.ValidateCustomResource(nil, object, d.values)
	broken, _ := d.rules.Validate(t.Context(), nil, d.structural, object, nil,
		celconfig.RuntimeCELCostBudget)
	for _, err := range append(errs, broken...) {
		unknown = append(unknown, err.Field)
		if err.Type == field.ErrorTypeInternal {
			t.Errorf("%v", err)
		}
	}
	for i := range unknown {
		unknown[i] = strings.TrimPrefix(strings.TrimPrefix(unknown[i], "spec"), ".")
	}
	return unknown
}

// checkRefused expects that the API server refuses each field with a fault, or a field above it.
func checkRefused(t *testing.T, kind choice.Kind, text string, faults []choice.Fault) {
	t.Helper()
	fields, key := map[string]choice.Fault{}, regexp.MustCompile(`\[(\D.*?)\]`)
	for _, fault := range faults {
		at, _, _ := strings.Cut(fault.Problem, ": ")
		at = key.ReplaceAllString(at, ".$1")
		if quoted := regexp.MustCompile(`^unknown field "(.*)"$`).FindStringSubmatch(at); quoted != nil {
			at = quoted[1]
		}
		if !strings.Contains(fault.Problem, "alias") && !strings.Contains(at, " ") &&
			at != "apiVersion" && at != "kind" { // others are about the document
			fields[at] = fault
		}
	}
	if len(fields) == 0 {
		return // the compilation of the rules takes a while
	}
	d := definitionOf(t, kind)
	object, err := d.object(text)
	if spec, isMap := object["spec"].(map[string]any); err != nil || !isMap || spec == nil {
		return // nothing of a field
	}
	refused := d.refused(t, object)
	for at, fault := range fields {
		assert.Check(t, slices.ContainsFunc(refused, func(other string) bool {
			other = key.ReplaceAllString(other, ".$1")
			return other != "" && (strings.HasPrefix(at, other) || strings.HasPrefix(other, at))
		}) || onlyOperator(fault), "%q is not among the refused %q in %s", fault.Problem, refused, text)
	}
}

// onlyOperator returns whether only the operator finds a fault.
func onlyOperator(fault choice.Fault) bool {
	// CEL of Kubernetes 1.29 has no functions for networks, and patterns cannot compare bits. Nothing
	// in a definition names OpenShift.
	return strings.Contains(fault.Problem, "use the network ") ||
		strings.Contains(fault.Problem, "[openshift.io/")
}

func TestDefinitionsAreValidForOldServers(t *testing.T) {
	t.Parallel()
	// The server of 1.30 refuses new expressions that 1.29 would not understand.
	old := environment.MustBaseEnvSet(version.MajorMinor(1, 29))
	const limit, limitOfRule = 100_000_000, 10_000_000 // of a CustomResourceDefinition
	for _, kind := range kinds() {
		d, cost := definitionOf(t, kind), uint64(0)
		spec := d.structural.Properties["spec"]
		eachSchema(&spec, "spec", 1, func(s *structural.Structural, at string, entries uint64) {
			results, err := cel.Compile(s, model.SchemaDeclType(s, false), celconfig.PerCallLimit, old,
				cel.NewExpressionsEnvLoader())
			assert.NilError(t, err)
			for _, result := range results {
				assert.Check(t, result.Error == nil, "%s %s: %v", kind, at, result.Error)
				assert.Check(t, entries*result.MaxCost < limitOfRule, "%s %s: %d", kind, at, result.MaxCost)
				cost += entries * result.MaxCost
			}
		})
		assert.Check(t, cost < limit, "%s costs %d", kind, cost)
	}
}

// eachSchema calls do for a schema and each one below it, with its path and the maximum number of
// its values.
func eachSchema(s *structural.Structural, at string, entries uint64,
	do func(*structural.Structural, string, uint64),
) {
	do(s, at, entries)
	for name, property := range s.Properties {
		eachSchema(&property, at+"."+name, entries, do)
	}
	if s.Items != nil {
		eachSchema(s.Items, at+"[]", entries*uint64(*s.ValueValidation.MaxItems), do)
	}
	if s.AdditionalProperties != nil {
		eachSchema(s.AdditionalProperties.Structural, at+"{}",
			entries*uint64(*s.ValueValidation.MaxProperties), do)
	}
}

// About a pattern the API server says only that the value does not match.
func TestServerSaysWhatToWriteInPlaceOfAWrongText(t *testing.T) {
	t.Parallel()
	// Rules about these texts would exceed the cost that API servers accept.
	costly := regexp.MustCompile(`^spec\.classes\[\]\.(mountOptions\[\]|shareMetadata\{\})$|` +
		`\.resources\{\}\.(limits|requests)\{\}$`)
	for _, kind := range kinds() {
		spec := definitionOf(t, kind).structural.Properties["spec"]
		eachSchema(&spec, "spec", 1, func(s *structural.Structural, at string, _ uint64) {
			assert.Check(t, s.ValueValidation == nil || s.ValueValidation.Pattern == "" ||
				costly.MatchString(at), "%s %s", kind, at)
			for _, rule := range s.XValidations {
				assert.Check(t, rule.Message != "", "%s %s: %s", kind, at, rule.Rule)
			}
		})
	}
}

func TestSchemaAcceptsEveryField(t *testing.T) {
	t.Parallel()
	for kind, spec := range map[choice.Kind]string{
		choice.Manila: complete,
		choice.Cinder: "snapshotClass: {forceCreate: true}\nclass: {fsType: xfs}\n",
	} {
		d := definitionOf(t, kind)
		object, err := d.object(spec)
		assert.NilError(t, err)
		assert.Check(t, is.Len(d.refused(t, object), 0), "%s", kind)
		other, err := d.object("{}")
		assert.NilError(t, err)
		other["metadata"] = map[string]any{"name": "other"}
		assert.Check(t, is.Len(d.refused(t, other), 1), "%s with another name", kind)
	}
}

// The fields of objects that operator.yaml does not have: each accepts a right value, and refuses
// the wrong ones that its type and its tags exclude.
func TestSchemaRefusesWhatOnlyObjectsContain(t *testing.T) {
	t.Parallel()
	d := definitionOf(t, choice.Cinder)
	refused := func(spec string) bool {
		object, err := d.object(spec)
		assert.NilError(t, err, spec)
		return len(d.refused(t, object)) > 0
	}
	var check func(of reflect.Type, before, after string)
	check = func(of reflect.Type, before, after string) {
		for _, f := range choice.Fields(choice.Cinder, of) {
			at := before + choice.FieldName(f) + ": "
			right, wrong := valuesOf(f)
			for _, value := range right {
				assert.Check(t, !refused(at+value+after), "%s is refused", at+value+after)
			}
			for _, value := range wrong {
				assert.Check(t, refused(at+value+after), "%s is accepted", at+value+after)
			}
			if f.Type.Kind() == reflect.Struct {
				check(f.Type, at+"{", "}"+after)
			}
		}
	}
	for part := range reflect.TypeFor[api.Spec]().Fields() {
		if part.Type != reflect.TypeFor[choice.Config]() {
			check(part.Type, "", "")
		}
	}
}

// valuesOf returns values in YAML that a field accepts, and others.
func valuesOf(f reflect.StructField) (right, wrong []string) {
	values := strings.Split(f.Tag.Get("enum"), ",")
	switch f.Type.Kind() {
	case reflect.Bool, reflect.Pointer:
		return []string{"true", "false"}, []string{"'true'", "Auto", "1", "{}"}
	case reflect.Int64:
		low, high, _ := strings.Cut(f.Tag.Get("range"), "-")
		lowest, _ := strconv.Atoi(low)
		highest, _ := strconv.Atoi(high)
		return []string{low, high}, []string{
			strconv.Itoa(lowest - 1), strconv.Itoa(highest + 1), "1.5", "'1'", "true",
		}
	case reflect.Struct:
		return []string{"{}"}, []string{"[]", "true", "{other: 1}"}
	case reflect.Slice:
		one, all := values[0], strings.Join(values, ", ")
		return []string{"[]", "[" + all + "]"}, []string{
			one, "[other]", "['']", "[" + all + ", " + one + "]", "[1]", "{}",
		}
	}
	if f.Tag.Get("enum") == "" {
		return []string{"a.B-1"}, []string{"1", "[]", "a b", strings.Repeat("x", 64)}
	}
	for _, other := range []string{"TraceAll", "Removed", "Force", strings.ToLower(values[0])} {
		if !slices.Contains(values, other) {
			wrong = append(wrong, other)
		}
	}
	return values, append(wrong, "''", "true")
}

// A default in an entry of `classes` would delete volumes that `class` retains.
func TestServerStoresNoDefaultInEntries(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds() {
		d := definitionOf(t, kind)
		object, err := d.object("class: {reclaimPolicy: Retain}\nclasses: [{type: gold}]\n")
		assert.NilError(t, err)
		assert.Check(t, is.Len(d.refused(t, object), 0))
		spec := object["spec"].(map[string]any)
		assert.Check(t, is.DeepEqual("Managed", spec["managementState"]))
		delete(spec, "managementState")
		assert.Check(t, is.DeepEqual(map[string]any{
			"class":   map[string]any{"reclaimPolicy": "Retain"},
			"classes": []any{map[string]any{"type": "gold"}},
		}, spec))
		text, err := yaml.Marshal(spec)
		assert.NilError(t, err)
		config, faults := choice.Parse(kind, "apiVersion: "+choice.APIVersion+"\nkind: "+string(kind)+
			"\n"+string(text), flavour.Kubernetes)
		assert.Assert(t, is.Len(faults, 0))
		assert.Check(t, is.Equal(config.ClassOf("gold").ReclaimPolicy, "Retain"))
	}
}

// What Kubernetes requires of options of pods is refused before the operator sees it.
func TestSchemaRefusesWrongOptionsOfPods(t *testing.T) {
	t.Parallel()
	const terms = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"{nodeSelectorTerms: [{matchExpressions: [%s]}]}}}"
	d := definitionOf(t, choice.Cinder)
	for options, refused := range map[string]bool{
		"tolerations: [{operator: Exists}]":                                                   false,
		"tolerations: [{key: a, operator: Exists, effect: NoSchedule}]":                       false,
		"tolerations: [{key: a, value: b}, {key: a, operator: Equal, value: b}]":              false,
		"tolerations: [{key: a, effect: NoExecute, tolerationSeconds: 1}]":                    false,
		"tolerations: [{key: a, operator: Exist}]":                                            true,
		"tolerations: [{key: a, effect: Never}]":                                              true,
		"tolerations: [{key: a, operator: Exists, value: b}]":                                 true,
		"tolerations: [{value: b}]":                                                           true,
		"tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 1}]":                   true,
		fmt.Sprintf(terms, "{key: a, operator: In, values: [b]}, {key: a, operator: Exists}"): false,
		fmt.Sprintf(terms, "{key: a, operator: Is, values: [b]}"):                             true,
		fmt.Sprintf(terms, "{key: a, operator: In}"):                                          true,
		fmt.Sprintf(terms, "{key: a, operator: DoesNotExist, values: [b]}"):                   true,
		"hostAliases: [{ip: 192.0.2.1}, {ip: '2001:db8::1'}]":                                 false,
		"hostAliases: [{ip: keystone}]":                                                       true,
		"hostAliases: [{ip: 192.0.2.256}]":                                                    true,
		"labels: {example.com/a: B.1}, nodeSelector: {example.com/a: ''}":                     false,
		"labels: {a: '!'}":                    true,
		"labels: {'a b': c}":                  true,
		"nodeSelector: {a: '!'}":              true,
		"nodeSelector: {'a b': c}":            true,
		"annotations: {Example.com/a: 'b c'}": false,
		"annotations: {'a b': c}":             true,
	} {
		object, err := d.object("pods: {node: {" + options + "}, controller: {" + options + "}}")
		assert.NilError(t, err)
		found := d.refused(t, object)
		assert.Check(t, is.Equal(refused, len(found) > 0), "%s: %q", options, found)
		of := func(part string) bool { return strings.HasPrefix(part, "pods.node") }
		assert.Check(t, is.Equal(refused, slices.ContainsFunc(found, of)), "%s: %q", options, found)
	}
}
