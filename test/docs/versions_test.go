package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestPageOfVersionsNamesTheImagesAndTheOldestKubernetes(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/versions.md")
	image := regexp.MustCompile(`(?m)^ +[A-Z_]+_IMAGE: \S+/([\w-]+):(v[\d.]+)$`)
	found := 0
	for _, file := range files(t, os.DirFS(filepath.Join(root, "assets")), ".yaml") {
		if base := filepath.Base(file); base != "driver.yaml" && base != "layer.yaml" {
			continue
		}
		for _, m := range image.FindAllStringSubmatch(read(t, filepath.Join("assets", file)), -1) {
			found++
			isDemo := strings.Contains(m[0], "registry.example.com/") // of `make new-driver`
			assert.Check(t, isDemo || strings.Contains(page, "`"+m[1]+"` "+m[2]), "not named: %s %s",
				m[1], m[2])
		}
	}
	assert.Check(t, found >= 10, "found only %d images", found)
	kubernetes := regexp.MustCompile(`kubeVersion: '>=([\d.]+)\.0-0'`).
		FindStringSubmatch(read(t, "assets/helm/Chart.yaml"))
	assert.Assert(t, kubernetes != nil, "the chart names no version of Kubernetes")
	assert.Check(t, strings.Contains(page, "| Kubernetes | "+kubernetes[1]+" or later |"))
}
