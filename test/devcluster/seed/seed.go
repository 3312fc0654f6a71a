// Package seed fills a fresh cluster as the installer, cluster-storage-operator,
// cloud-credential-operator and HyperShift would: manifests are data, in the folder
// of the same name. Packages cluster, cloud and command use it.
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
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed manifests
var manifests embed.FS

// hostedControlPlanes is apart from the manifests since it must be served before any
// of them is written.
//
//go:embed definitions/hostedcontrolplanes.yaml
var hostedControlPlanes []byte

// HostedControlPlanes is the CustomResourceDefinition of HyperShift's objects.
func HostedControlPlanes() []byte { return bytes.Clone(hostedControlPlanes) }

// apply renders all manifests of a folder and creates or replaces their objects in
// the order of the file names.
func apply(ctx context.Context, w Writer, folder string, v Values) error {
	objects, err := Render(folder, v)
	if err != nil {
		return err
	}
	for _, object := range objects {
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
