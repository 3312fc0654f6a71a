package generator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// The dashboard: its data, which are not a layer, and the output beside the alerts.
const (
	dashboardData      = "monitoring/dashboard.yaml"
	dashboardGenerated = "monitoring/kubernetes/generated"
)

// dashboard is what an administrator sees.
type dashboard struct {
	Title  string `json:"title"`
	Panels []struct {
		Title       string `json:"title"`
		Description string `json:"description"`
		// Unit is a unit of Grafana, by default a number without one.
		Unit    string `json:"unit"`
		Queries []struct {
			Expr   string `json:"expr"`
			Legend string `json:"legend"` // labels in double braces
		} `json:"queries"`
	} `json:"panels"`
}

// dashboards returns the ConfigMap of the dashboard by the name of its file, or nothing if the
// assets folder does not contain its data.
func dashboards(fsys fs.FS) (map[string][]byte, error) {
	text, err := fs.ReadFile(fsys, dashboardData)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the dashboard: %w", err)
	}
	read, err := parse(dashboardData, text)
	if err != nil {
		return nil, err
	}
	var content dashboard
	if err := read.decodeStrictly(&content); err != nil {
		return nil, err
	}
	var model bytes.Buffer
	encoder := json.NewEncoder(&model)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(content.model()); err != nil {
		return nil, fmt.Errorf("encoding the dashboard: %w", err)
	}
	files := map[string][]byte{}
	return files, addYAML(files, "dashboard.yaml", object{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": object{
			"name": "openstack-csi-dashboard", "namespace": kubernetesNamespace,
			// The sidecar of Grafana's chart selects it.
			"labels": map[string]string{
				"app.kubernetes.io/part-of": "openstack-csi", "grafana_dashboard": "1",
			},
		},
		"data": map[string]string{"openstack-csi.json": model.String()},
	})
}

type object = map[string]any

// model returns the dashboard with what both consoles know: panels of the type "graph", which
// Grafana shows as time series, two in a row. span is for OpenShift's console, gridPos for Grafana.
func (d dashboard) model() object {
	const columns, width, height = 2, 12, 8
	var panels []object
	for i, p := range d.Panels {
		var targets []object
		for j, query := range p.Queries {
			targets = append(targets, object{
				"refId": string(rune('A' + j)), "expr": query.Expr, "legendFormat": query.Legend,
			})
		}
		panels = append(panels, object{
			"id": i + 1, "type": "graph", "title": p.Title, "description": p.Description,
			"targets": targets, "legend": object{"show": true}, "span": width / columns,
			"gridPos": object{
				"x": i % columns * width, "y": i / columns * height, "w": width, "h": height,
			},
			"yaxes": []object{{"format": p.Unit, "min": 0, "show": true}, {"show": false}},
		})
	}
	return object{
		"title": d.Title, "uid": "openstack-csi", "tags": []string{"openstack", "storage"},
		"schemaVersion": 27, "time": object{"from": "now-6h", "to": "now"}, "refresh": "1m",
		"panels": panels,
	}
}
