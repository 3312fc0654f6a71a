package kubectl

import (
	"context"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Helm leaves its marks on a Secret that is kept, also those of the HelmRelease of Flux.
func TestRotationAsksTheReleaseWhetherItContainsTheSecret(t *testing.T) {
	t.Parallel()
	const manages = "manages Secret openstack-csi/openstack-credentials"
	in := map[string]any{
		"manifest": "kind: A\n---\nkind: Secret\nmetadata: {name: " + defaultSecret + "}",
	}
	out := map[string]any{"manifest": "kind: Secret\nmetadata: {name: other}"}
	type records = []client.Object
	for name, test := range map[string]struct {
		records records
		hidden  bool
		says    string
	}{
		"the release contains it": {records{record(t, "a", 1, "deployed", in)}, false, manages},
		"it was given back": {
			records{record(t, "a", 1, "superseded", in), record(t, "a", 2, "deployed", out)}, false, "",
		},
		"a later upgrade, which failed, contains it": {
			records{record(t, "a", 1, "deployed", out), record(t, "a", 2, "failed", in)}, false, manages,
		},
		"an earlier upgrade, which failed, contains it": {
			records{record(t, "a", 1, "failed", in), record(t, "a", 2, "deployed", out)}, false, "",
		},
		"the release has ended": {records{record(t, "a", 1, "uninstalled", in)}, false, ""},
		"there is no release":   {nil, false, ""},
		"the release is hidden": {nil, true, "you may not read Secrets in namespace kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := withClouds(defaultNamespace, defaultSecret, cloudsYAML("a"))
			s.Annotations = map[string]string{releaseName: "a", releaseNamespace: "kube-system"}
			s.Labels = map[string]string{
				"app.kubernetes.io/managed-by": "Helm", helmRelease + "/name": "a",
			}
			c := newRotatingCluster(t, append(test.records, s)...)
			c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{List: func(
				ctx context.Context, w client.WithWatch, list client.ObjectList, by ...client.ListOption,
			) error {
				if test.hidden && (&client.ListOptions{}).ApplyOptions(by).Namespace == rootNamespace {
					return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
				}
				return w.List(ctx, list, by...)
			}})
			_, output := c.rotate(file(t, cloudsYAML("b")), "--dry-run")
			assert.Check(t, strings.Contains(output, test.says) && (test.says != "") ==
				!strings.Contains(output, "Would change"), output)
		})
	}
}
