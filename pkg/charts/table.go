// Package charts translates what the charts of cloud-provider-openstack install into values of the
// chart openstack-csi. It sends no requests. Its callers are pkg/kubectl and hack/choices.
package charts

import (
	_ "embed"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

//go:embed charts.yaml
var table []byte

// Row is what sets the same as values of the charts. The start of the table describes the fields.
type Row struct {
	Cinder, Manila []string
	Here, Why      string
	By, Note       string
	Since          string
	Words, See     map[string]string
	Default        map[string]any
	Set            []string
}

// Rows returns the table.
func Rows() ([]Row, error) {
	var rows []Row
	if err := yaml.UnmarshalStrict(table, &rows); err != nil {
		return nil, fmt.Errorf("reading the table of values: %w", err)
	}
	return rows, nil
}

// Of returns the values of the chart of a driver. In a name, * is one step or a part of it.
func (r Row) Of(kind choice.Kind) []string {
	if kind == choice.Cinder {
		return r.Cinder
	}
	return r.Manila
}

// Match returns the name in the row that stands for a value of the chart of a driver, "" for none.
func (r Row) Match(kind choice.Kind, value string) string {
	steps := strings.NewReplacer(".", "/")
	for _, name := range r.Of(kind) {
		if matched, _ := path.Match(steps.Replace(name), steps.Replace(value)); matched {
			return name
		}
	}
	return ""
}
