package values

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed tools.yaml
var tools []byte

// Wrapped returns files that contain values of a chart, by the tools that read them.
func Wrapped(chart string, content map[string]any) (map[string]string, error) {
	text, err := yaml.Marshal(content)
	if err != nil {
		return nil, err
	}
	object, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	var files map[string]string
	if err := yaml.UnmarshalStrict(tools, &files); err != nil {
		return nil, err
	}
	for name, file := range files {
		files[name] = strings.NewReplacer("CHART", chart, "MAP", string(object),
			"TEXT", fmt.Sprintf("%q", text)).Replace(file)
	}
	return files, nil
}
