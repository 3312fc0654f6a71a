//go:build e2e

package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestWhyNamesTheCause makes claims and pods wait, each for a cause that sidecars, a kubelet or a
// driver report. `kubectl openstack-csi why` names the cause in its first sentence. Claims of which
// the cause ends are bound.
func TestWhyNamesTheCause(t *testing.T) {
	x := use(t, kind{tls: true})
	x.explainsSituations()
	x.explainsLease()
	x.explainsImage()
	x.explainsLogin()
	x.explainsQuota()
}

// situation is what testdata/why.yaml contains.
type situation struct {
	Ask, Cause string
	Objects    []map[string]any
	Then       string
}

// explainsSituations makes all situations of testdata/why.yaml at once.
func (x *test) explainsSituations() {
	x.T.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "why.yaml"))
	x.Must(err)
	var all []situation
	x.Must(yaml.UnmarshalStrict(text, &all))
	var objects []map[string]any
	for _, s := range all {
		objects = append(objects, s.Objects...)
	}
	list, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	x.Must(err)
	file := filepath.Join(x.T.TempDir(), "objects.json")
	x.Must(os.WriteFile(file, list, 0o600))
	x.runAfter("kubectl delete pvc/data-full-0 --ignore-not-found")
	x.runAfter("kubectl delete --ignore-not-found --timeout=2m -f " + file)
	x.run("kubectl apply -f " + file)
	for _, s := range all {
		x.T.Run(s.Ask, func(t *testing.T) {
			y := &test{&pods.Test{T: t, Cluster: x.Cluster}}
			if s.Then != "" {
				y.run(s.Then)
			}
			y.awaitCause(s.Ask, s.Cause)
		})
	}
}

// explainsLease freezes the leader of the provisioner, whose Lease expires after 15 s.
func (x *test) explainsLease() {
	x.T.Helper()
	i := slices.IndexFunc(x.controllers(), func(w workload) bool {
		return w.name == "openstack-manila-csi-controllerplugin"
	})
	controller := x.controllers()[i]
	x.freezeLeaders(controller)
	x.Claim("why-lease", pods.ClaimSpec(pods.Manila()))
	x.awaitCause("pvc/why-lease", "no provisioner leads, so new claims wait: Lease "+
		"nfs-manila-csi-openstack-org")
	x.killLeaders(controller)
	x.awaitBound("why-lease")
}

// explainsImage selects an image that no node can pull. Pods that run stay.
func (x *test) explainsImage() {
	const operator = "deployment/manila-csi-driver-operator -n openstack-csi "
	const driver = "maniladriver/nfs.manila.csi.openstack.org "
	image := x.run("kubectl get " + operator +
		`-o jsonpath='{.spec.template.spec.containers[0].env[?(@.name=="DRIVER_IMAGE")].value}'`)
	restore := "kubectl set env " + operator + "DRIVER_IMAGE=" + image
	x.runAfter(restore)
	x.run("kubectl set env " + operator + "DRIVER_IMAGE=registry.invalid/driver:none")
	x.Eventually("Ready names the container", func() error {
		return guide.Run(x.T.Context(), "kubectl get "+driver+
			`-o jsonpath='{.status.conditions[?(@.type=="Ready")].message}' | tee /dev/stderr |
			grep -q "container csi-driver is in ImagePullBackOff"`, x.terminal()...)
	})
	// The container has the same image.
	x.awaitCause("daemonset/openstack-manila-csi-nodeplugin",
		"container wait-for-nfs-plugin is in ImagePullBackOff")
	x.run(restore + "\nkubectl wait " + driver + "--for=condition=Ready --timeout=5m")
}

// explainsLogin lets OpenStack refuse the credentials of operators and drivers.
func (x *test) explainsLogin() {
	cloud := x.Cluster.Cloud()
	given := cloud.Credentials()
	restore := func(context.Context) error {
		cloud.RotateCredentials(simulator.Rotation{
			Password:                    given.Password,
			ApplicationCredentialID:     given.ApplicationCredentialID,
			ApplicationCredentialSecret: given.ApplicationCredentialSecret,
		})
		return nil
	}
	x.CleanUp(restore)
	cloud.RotateCredentials(simulator.Rotation{})
	x.Claim("why-login", pods.ClaimSpec(pods.Manila()))
	x.awaitCause("pvc/why-login", "refused the login") // in the words of the operator or the driver
	x.Must(restore(x.T.Context()))
	x.awaitBound("why-login")
}

// explainsQuota lets Manila answer as with a full quota.
func (x *test) explainsQuota() {
	cloud := x.Cluster.Cloud()
	fault, err := cloud.SetFault(simulator.Fault{
		Mode: simulator.Foreign, Service: simulator.Share, Method: http.MethodPost,
		Answer: &simulator.Answer{
			Status: http.StatusRequestEntityTooLarge,
			Body: `{"overLimit": {"code": 413, "message": "Maximum number of shares allowed (50) ` +
				`either per project/user or share type quota is exceeded.", "retryAfter": "0"}}`,
		},
	})
	x.Must(err)
	x.T.Cleanup(func() { _ = cloud.ClearFaults() })
	x.Claim("why-quota", pods.ClaimSpec(pods.Manila()))
	x.awaitCause("pvc/why-quota", "the quota of shares of the OpenStack project or share type is full")
	x.Must(cloud.ClearFaults(fault.ID))
	x.awaitBound("why-quota")
}

// awaitCause waits until the plugin's first sentence names the cause for an object.
func (x *test) awaitCause(object, cause string) {
	x.T.Helper()
	x.Eventually("why names the cause", func() error {
		output, err := guide.Output(x.T.Context(), "kubectl openstack-csi why "+object, x.terminal()...)
		first, _, _ := strings.Cut(output, "\n  ") // the first link of the chain
		if text := strings.Join(strings.Fields(first), " "); err == nil ||
			!strings.HasPrefix(text, object+" is ") || !strings.Contains(text, cause) {
			return fmt.Errorf("want exit code 1 and %q: %w\n%s", cause, err, output)
		}
		x.T.Logf("%s", output)
		return nil
	})
}

// awaitBound waits until a claim is bound, which is then no problem for the plugin.
func (x *test) awaitBound(claim string) {
	x.T.Helper()
	x.Eventually("claim "+claim+" is bound", func() error {
		output, err := guide.Output(x.T.Context(), "kubectl openstack-csi why pvc/"+claim,
			x.terminal()...)
		if err == nil && !strings.Contains(output, "bound to PersistentVolume") {
			err = fmt.Errorf("the output is\n%s", output)
		}
		return err
	})
}
