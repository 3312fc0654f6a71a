package values

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// tools returns files with which tools install a chart with values, by the name of the tool. MAP
// and TEXT stand for the values.
func tools() map[string]string {
	return map[string]string{
		"Flux": `
{apiVersion: source.toolkit.fluxcd.io/v1, kind: OCIRepository, metadata: {name: other}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: storage, labels: {app: a}}
spec:
  timeout: 3m
  chart: {spec: {chart: CHART, version: 1.0.0}}
  valuesFrom:
  - {kind: Secret, name: login, valuesKey: clouds.yaml, targetPath: credentials.clouds}
  values: MAP
`,
		"Flux with a reference": `
kind: HelmRelease
spec: {interval: 3m, chartRef: {kind: OCIRepository, name: CHART}, valuesFrom: [], values: MAP}
`,
		"Argo CD with a text": `
kind: Application
spec: {source: {chart: CHART, helm: {values: TEXT}}}
`,
		"Argo CD with an object": `
kind: Application
spec: {source: {chart: CHART, helm: {valuesObject: MAP}}}
`,
		"Argo CD with sources": `
kind: Application
spec:
  sources:
  - {repoURL: a, chart: CHART, helm: {valueFiles: [$values/a.yaml], valuesObject: MAP}}
  - {repoURL: b, ref: values}
`,
		"Argo CD for several clusters": `
kind: ApplicationSet
spec:
  generators: [{list: {elements: [{name: a, values: {region: b}}]}}]
  template: {spec: {source: {chart: CHART, helm: {valuesObject: MAP}}}}
`,
		"k3s": `
kind: HelmChart
spec: {chart: 'https://a/CHART-1.0.0.tgz', valuesContent: TEXT}
`,
		"k3s, changed": "{kind: HelmChartConfig, metadata: {name: CHART}, spec: {valuesContent: TEXT}}",
		"Cluster API":  "{kind: HelmChartProxy, spec: {chartName: CHART, valuesTemplate: TEXT}}",
		"Azimuth": `
kind: HelmRelease
spec:
  chart: {name: CHART}
  valuesSources: [{template: TEXT}, {secret: {name: overrides, key: secret}}]
`,
		"Fleet":     "{helm: {chart: CHART, values: MAP, valuesFiles: [a.yaml]}}",
		"kustomize": "{kind: Kustomization, helmCharts: [{name: CHART, valuesInline: MAP}]}",
		"helmfile": `
repositories: [{name: a, url: https://a}]
releases:
- {name: other, chart: a/other, values: [{secret: {name: b}}]}
- {name: c, chart: a/CHART, values: [a.yaml, MAP]}
`,
		"a chart with an alias": `
tags: {a: true}
global: {secret: b}
other: {image: c}
storage: MAP
`,
		"charts in charts": "{platform: {other: {name: a}, storage: MAP}}",
		"a List": `
kind: List
items: [{kind: HelmRelease, spec: {chart: {spec: {chart: CHART}}, values: MAP}}]
`,
	}
}

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
	files := map[string]string{}
	for name, file := range tools() {
		files[name] = strings.NewReplacer("CHART", chart, "MAP", string(object),
			"TEXT", fmt.Sprintf("%q", text)).Replace(file)
	}
	return files, nil
}
