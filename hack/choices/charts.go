package main

import (
	_ "embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// The start of the page about values of other charts, and its rows.
var (
	//go:embed charts.txt
	chartsIntro string
	//go:embed charts.yaml
	chartsRows []byte
)

// charts returns the page that says what sets the same as a value of another chart.
func charts() (string, error) {
	var rows []struct {
		Cinder, Manila []string
		Here, Why      string
	}
	err := yaml.Unmarshal(chartsRows, &rows)
	page := chartsIntro
	for _, row := range rows {
		here := code(strings.Split(row.Here, ", ")) + row.Why
		page += fmt.Sprintf("| %s | %s | %s |\n", code(row.Cinder), code(row.Manila), here)
	}
	return page, err
}

// code returns names as code, separated by commas.
func code(names []string) string {
	if len(names) == 0 || names[0] == "" {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
