//go:build integration

package supplychain

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestSBOMListsTheModulesOfTheProgram(t *testing.T) {
	t.Parallel()
	program := builtOperator(t)
	var bom cyclonedx.BOM
	decoder := cyclonedx.NewBOMDecoder(bytes.NewReader(writeSBOM(t, program)),
		cyclonedx.BOMFileFormatJSON)
	assert.NilError(t, decoder.Decode(&bom))
	got := map[string]string{}
	for _, component := range *bom.Components {
		got[component.Name] = component.PackageURL
	}
	want := map[string]string{}
	goVersion, modules := goVersionM(t, program)
	want["stdlib"] = "pkg:golang/stdlib@" + strings.TrimPrefix(goVersion, "go")
	for _, module := range modules {
		path, version := module[0], strings.ReplaceAll(module[1], "+", "%2B")
		want[path] = "pkg:golang/" + strings.ToLower(path) + "@" + version
	}
	assert.Check(t, is.DeepEqual(want, got), "components (-in the program +in the SBOM)")
}

func TestSBOMFollowsTheSchema(t *testing.T) {
	t.Parallel()
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f={{.Dir}}",
		"github.com/CycloneDX/cyclonedx-go").Output()
	assert.NilError(t, err)
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{
		"bom-1.6": "bom-1.6.schema.json", "spdx": "spdx.schema.json", "jsf-0.82": "jsf-0.82.schemax.json",
	} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(module)), "schema", file))
		assert.NilError(t, err)
		url := "http://cyclonedx.org/schema/" + name + ".schema.json"
		assert.NilError(t, compiler.AddResource(url, decode(t, content)))
	}
	schema, err := compiler.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	assert.NilError(t, err)
	assert.Check(t, schema.Validate(decode(t, writeSBOM(t, builtOperator(t)))))
}

// builtOperator returns the path of a program that `make build` has built.
func builtOperator(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BIN_DIR")
	assert.Assert(t, dir != "", "BIN_DIR is not set: make verify-supply-chain sets it")
	return filepath.Join(dir, "manila-operator")
}

// writeSBOM returns the SBOM of a program, and leaves the folder of the program unchanged.
func writeSBOM(t *testing.T, program string) []byte {
	t.Helper()
	link := filepath.Join(t.TempDir(), filepath.Base(program))
	assert.NilError(t, os.Symlink(program, link))
	cmd := exec.CommandContext(t.Context(), "go", "run", "./hack/sbom", link)
	cmd.Dir = repository
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	content, err := os.ReadFile(link + ".cdx.json")
	assert.NilError(t, err)
	return content
}

// goVersionM returns the version of Go, and path and version of each module, in the output of `go
// version -m`.
func goVersionM(t *testing.T, program string) (goVersion string, modules [][2]string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	assert.NilError(t, err)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(fields[0], program):
			goVersion = fields[1]
		case fields[0] == "dep":
			modules = append(modules, [2]string{fields[1], fields[2]})
		case fields[0] == "=>": // replaces the module of the line before
			modules[len(modules)-1] = [2]string{fields[1], fields[2]}
		}
	}
	assert.Assert(t, goVersion != "" && len(modules) != 0, "no modules in\n%s", out)
	return goVersion, modules
}

func decode(t *testing.T, content []byte) any {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
	assert.NilError(t, err)
	return value
}
