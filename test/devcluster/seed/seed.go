// Package seed fills a fresh cluster as the installer, cluster-storage-operator
// and cloud-credential-operator would: manifests are data, in the folder of the
// same name. Packages cluster and cloud use it.
package seed

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed manifests
var manifests embed.FS

// Folders of manifests, beside one for each operator.
const (
	ClusterFolder   = "cluster"
	OpenStackFolder = "openstack"
)

// InfrastructureName is the unique name the installer would give the cluster.
const InfrastructureName = "devcluster-x7k2p"

// Cloud is what the manifests say about OpenStack.
type Cloud struct {
	// Clouds is the content of clouds.yaml.
	Clouds string
	// CA is the private CA, empty if there is none.
	CA string
	// Region of the services.
	Region string
}

// Values fill the placeholders of manifests.
type Values struct {
	InfrastructureName string
	// OperatorAddress is the host and port on which the operator serves metrics; only
	// the manifests of operators have it.
	OperatorAddress string
	// Operators are those that the cluster is for.
	Operators []Operator
	Cloud     Cloud
}

// Credentials returns the Secrets that the operators need, each once.
func (v Values) Credentials() []Credential {
	var all []Credential
	for _, o := range v.Operators {
		for _, one := range o.Credentials {
			if !slices.Contains(all, one) {
				all = append(all, one)
			}
		}
	}
	return all
}

// CloudConfigs returns the namespaces that have ConfigMap cloud-provider-config:
// where the installer puts it, and where the operators need it.
func (v Values) CloudConfigs() []string {
	all := []string{"openshift-config"}
	for _, o := range v.Operators {
		for _, namespace := range o.CloudConfigCopies {
			if !slices.Contains(all, namespace) {
				all = append(all, namespace)
			}
		}
	}
	return all
}

// Apply renders all manifests of a folder and creates or replaces their objects
// in the order of the file names; of the given kinds, or of all if none is given.
func Apply(ctx context.Context, w Writer, folder string, v Values, kinds ...string) error {
	objects, err := Render(folder, v)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if len(kinds) > 0 && !slices.Contains(kinds, object.GetKind()) {
			continue
		}
		if err := w.Write(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// Render returns the objects of a folder.
func Render(folder string, v Values) ([]*unstructured.Unstructured, error) {
	dir := path.Join("manifests", folder)
	entries, err := manifests.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading manifests of %q: %w", folder, err)
	}
	var objects []*unstructured.Unstructured
	for _, e := range entries {
		found, err := renderFile(path.Join(dir, e.Name()), v)
		if err != nil {
			return nil, fmt.Errorf("rendering %q: %w", path.Join(folder, e.Name()), err)
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func renderFile(name string, v Values) ([]*unstructured.Unstructured, error) {
	t, err := template.New(path.Base(name)).Funcs(functions()).Option("missingkey=error").ParseFS(manifests, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, err
	}
	return decode(&out)
}

func functions() template.FuncMap {
	return template.FuncMap{
		// A JSON string is a YAML string, whatever it contains.
		"json": func(value any) (string, error) {
			out, err := json.Marshal(value)
			return string(out), err
		},
	}
}

func decode(in io.Reader) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 { // a document may hold only comments
			objects = append(objects, object)
		}
	}
}
