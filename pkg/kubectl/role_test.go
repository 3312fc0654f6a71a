package kubectl

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// The ClusterRole allows what the commands of the golden files, and completion, request. So it
// allows no request for Secrets.
func TestClusterRoleAllowsExactlyWhatStatusAndWhyRequest(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, file := range scenarioFiles(t) {
		var s scenario
		decode(t, file, &s)
		record(t, &s, strings.Fields(s.Args), used)
	}
	_, scenarios := situations(t)
	for _, s := range scenarios {
		record(t, s, strings.Fields(s.Args), used)
	}
	for kind := range explainers() {
		var s scenario
		record(t, &s, []string{"__complete", "why", kind + "/"}, used)
	}
	diff := cmp.Diff(slices.Sorted(maps.Keys(allowed(t))), slices.Sorted(maps.Keys(used)))
	assert.Check(t, diff == "", "permissions (-allowed +used):\n%s", diff)
}

// allowed returns the permissions of the ClusterRole.
func allowed(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	var role rbacv1.ClusterRole
	decode(t, "../../assets/kubectl/clusterrole.yaml", &role)
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				all[fmt.Sprintf("%s %s.%s", verb, resource, rule.APIGroups[0])] = true
			}
		}
	}
	return all
}

// The page names what must-gather lists. The ClusterRole allows the rest, which is for the status.
func TestPageNamesThePermissionsOfMustGather(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/kubectl.md")
	assert.NilError(t, err)
	_, section, _ := strings.Cut(string(page), "\n`must-gather` needs ")
	section, _, _ = strings.Cut(section, "\n## ")
	words := regexp.MustCompile(`\w+`).FindAllString(strings.ToLower(section), -1)
	for _, kind := range slices.Concat(clusterKinds(), namespacedKinds(), userKinds()) {
		assert.Check(t, slices.Contains(words, path.Base(folder(kind))),
			"the page does not name %s", kind.Kind)
	}
	used, role := map[string]bool{}, allowed(t)
	record(t, &scenario{}, []string{"must-gather", filepath.Join(t.TempDir(), "out")}, used)
	for permission := range used {
		_, resource, _ := strings.Cut(permission, " ")
		resource, _, _ = strings.Cut(resource, ".")
		assert.Check(t, role[permission] || slices.Contains(words, resource),
			"neither the page nor the ClusterRole contains %q", permission)
	}
}

// record runs a command, and adds the permissions that it needs.
func record(t *testing.T, s *scenario, args []string, used map[string]bool) {
	t.Helper()
	o := s.options(t)
	inner := s.client(t).(client.WithWatch)
	add := func(verb string, object runtime.Object) error {
		kind, err := apiutil.GVKForObject(object, inner.Scheme())
		if err != nil {
			return err
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		used[fmt.Sprintf("%s %s.%s", verb, resource.Resource, resource.Group)] = true
		return nil
	}
	connectTo(o, interceptor.NewClient(inner, onRead(add)))
	if len(args) > 1 && args[0] == "__complete" {
		args = slices.Insert(args, 1, "--kubeconfig="+kubeconfig(t))
		execute(t.Context(), o, args, Streams{Out: &strings.Builder{}, Err: &strings.Builder{}})
		return
	}
	run(t, o, false, args...)
}
