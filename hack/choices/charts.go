package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/charts"
)

// chartsIntro is the start of the page about values of other charts.
//
//go:embed charts.txt
var chartsIntro string

// charts returns the page that says what sets the same as a value of another chart.
func chartsPage() (string, error) {
	rows, err := charts.Rows()
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
