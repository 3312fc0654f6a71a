package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// A test of the guide runs the command for operators without OLM.
func TestSubscriptionSetsTheVariablesOfTheCommandWithoutOLM(t *testing.T) {
	t.Parallel()
	commands, err := guide.Commands(filepath.Join(root, "docs/csi-addons/install.md"),
		"Add the sidecars")
	assert.NilError(t, err)
	var subscription struct {
		Spec struct {
			Config struct{ Env []corev1.EnvVar }
		}
	}
	assert.NilError(t, yaml.UnmarshalStrict([]byte(commands[1]), &subscription))
	var got []string
	for _, variable := range subscription.Spec.Config.Env {
		got = append(got, variable.Name+"="+variable.Value)
	}
	want := regexp.MustCompile(`CSI_ADDONS_\w+=\S+`).FindAllString(commands[0], -1)
	if diff := cmp.Diff(want, got); diff != "" || len(want) != 2 {
		t.Errorf("variables (-without OLM +with OLM):\n%s", diff)
	}
}

func TestLogsInPagesAreOfContainersThatExist(t *testing.T) {
	t.Parallel()
	command := regexp.MustCompile(`logs deployment/(\S+?)(?: -c ([a-z-]+))?[ \x60\n]`)
	found := 0
	for _, page := range files(t, os.DirFS(filepath.Join(root, "docs")), ".md") {
		name := filepath.Join("docs", page)
		for _, match := range command.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !slices.ContainsFunc(deployments(t), func(manifest string) bool {
				isPlaceholder := match[1] == strings.ToUpper(match[1])
				return (isPlaceholder || strings.Contains(manifest, "\n  name: "+match[1]+"\n")) &&
					(match[2] == "" || strings.Contains(manifest, " name: "+match[2]+"\n"))
			}) {
				t.Errorf("%s: no Deployment %s has a container %s", name, match[1], match[2])
			}
		}
	}
	assert.Check(t, found >= 8, "the pages contain only %d commands that print logs", found)
}

func deployments(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range files(t, os.DirFS(filepath.Join(root, "assets")), ".yaml") {
		text := read(t, filepath.Join("assets", name))
		if strings.Contains(text, "\nkind: Deployment\n") {
			all = append(all, text)
		}
	}
	return all
}
