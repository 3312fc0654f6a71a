package assets_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// forKubernetes returns what an installation on Kubernetes writes, by the name of its file: the
// manifests and bundles of drivers and of CSI-Addons, and the content of the chart, which has the
// alerts, the dashboard and the snapshot controller, too. Each element is a document.
func forKubernetes(t *testing.T) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for _, pattern := range []string{
		"drivers/*/generated/kubernetes", "csi-addons/generated/kubernetes",
		"helm/generated/openstack-csi/crds", "helm/generated/openstack-csi/files", "namespace",
	} {
		folders, err := fs.Glob(os.DirFS("."), pattern)
		assert.Assert(t, err == nil && len(folders) != 0, "%s: %v", pattern, err)
		for _, folder := range folders {
			assert.NilError(t, fs.WalkDir(os.DirFS("."), folder,
				func(file string, entry fs.DirEntry, err error) error {
					if err != nil || entry.IsDir() || path.Ext(file) != ".yaml" {
						return err
					}
					text, err := os.ReadFile(file)
					for document := range strings.SplitSeq(string(text), "\n---\n") {
						var object map[string]any
						assert.NilError(t, yaml.Unmarshal([]byte(document), &object), file)
						all[file] = append(all[file], object)
					}
					return err
				}))
		}
	}
	return all
}

// Charts of others, and other programs, take a cluster for OpenShift by groups, names, labels or
// annotations. The group of CSI-Addons is that of its project, as is the name of a Lease. The
// configuration of a process is no object.
func TestNothingForKubernetesIsOfOpenShift(t *testing.T) {
	t.Parallel()
	allowed := regexp.MustCompile(`csiaddons\.openshift\.io|e8cd140a\.openshift\.io|` +
		`operator\.openshift\.io/v1alpha1\nkind: GenericOperatorConfig`)
	var mustNotName func(file string, value any)
	mustNotName = func(file string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for key, child := range value {
				mustNotName(file, key)
				mustNotName(file, child)
			}
		case []any:
			for _, child := range value {
				mustNotName(file, child)
			}
		case string:
			left := strings.ToLower(allowed.ReplaceAllString(value, ""))
			assert.Check(t, !strings.Contains(left, "openshift") &&
				!strings.Contains(left, "node-role.kubernetes.io/master"), "%s: %s", file, value)
		}
	}
	for file, objects := range forKubernetes(t) {
		for _, object := range objects {
			mustNotName(file, object)
		}
	}
}

// The namespace may contain pods of others, such as those of cloud-provider-openstack's charts,
// whose other labels are the same as ours. CSI-Addons and the snapshot controller have namespaces
// of their own.
func TestSelectorsMatchOurPodsOnly(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`^csi-addons/|/files/(snapshots|csi-addons)`)
	found := map[string]int{}
	for file, objects := range forKubernetes(t) {
		for _, object := range objects {
			fields := map[any][]string{
				"Deployment": {"selector", "matchLabels"}, "DaemonSet": {"selector", "matchLabels"},
				"PodDisruptionBudget": {"selector", "matchLabels"}, "Service": {"selector"},
				"NetworkPolicy": {"podSelector", "matchLabels"},
			}[object["kind"]]
			if fields == nil || others.MatchString(file) {
				continue
			}
			labels, _, err := unstructured.NestedStringMap(object, append([]string{"spec"}, fields...)...)
			assert.NilError(t, err, file)
			assert.Check(t, labels["app.kubernetes.io/part-of"] == "openstack-csi" ||
				strings.HasSuffix(labels["name"], "-csi-driver-operator"), "%s: %s selects %v", file,
				object["kind"], labels)
			found[object["kind"].(string)]++
		}
	}
	assert.Check(t, is.Len(found, 5), "%v", found)
}

// Administrators and the plugin of kubectl find the objects by the labels. The definitions of
// CSI-Addons and snapshots, and the snapshot controller, belong to other projects.
func TestObjectsForKubernetesHaveTheLabels(t *testing.T) {
	t.Parallel()
	others := regexp.MustCompile(`/files/snapshots/|csiaddons\.openshift\.io_|kustomization\.yaml`)
	found, drivers := 0, map[string]bool{}
	folders, err := os.ReadDir("drivers")
	assert.NilError(t, err)
	for _, folder := range folders {
		drivers["openstack-"+folder.Name()] = true
	}
	for file, objects := range forKubernetes(t) {
		for _, object := range objects {
			if object["kind"] == nil || others.MatchString(file) {
				continue
			}
			metadata, _ := object["metadata"].(map[string]any)
			labels, _ := metadata["labels"].(map[string]any)
			driver, _ := labels["app.kubernetes.io/instance"].(string)
			ofDriver := strings.Contains(file, "drivers/") && object["kind"] != "CustomResourceDefinition"
			assert.Check(t, labels["app.kubernetes.io/part-of"] == "openstack-csi" &&
				(drivers[driver] || !ofDriver),
				"%s: %s %s has the labels %v", file, object["kind"], metadata["name"], labels)
			found++
		}
	}
	assert.Check(t, found > 100, "found only %d objects", found)
}
