package generator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
// chart's schema. Helm does not ask the API server to refuse unknown fields, so the schema does.
func valuesSchema(fsys fs.FS, text []byte) ([]byte, error) {
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", chartSchema, err)
	}
	definitions := map[string]any{}
	schema["$defs"] = definitions
	err := eachFile(fsys, "crds/generated/*", func(file string, text []byte) error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err != nil {
			return fmt.Errorf("decoding %s: %w", file, err)
		}
		spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
		sealed(&spec)
		definitions[crd.Spec.Names.Plural] = spec
		return nil
	})
	if err != nil {
		return nil, err
	}
	text, err = json.MarshalIndent(schema, "", "  ")
	return append(text, '\n'), err
}

// sealed makes the objects in a schema refuse unknown fields, and removes what is only for API
// servers.
func sealed(s *apiextensionsv1.JSONSchemaProps) {
	s.XValidations, s.Default, s.XIntOrString = nil, nil, false
	if s.Properties != nil {
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{}
	}
	for name, property := range s.Properties {
		sealed(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		sealed(s.Items.Schema)
	}
	if values := s.AdditionalProperties; values != nil && values.Schema != nil {
		sealed(values.Schema)
	}
}
