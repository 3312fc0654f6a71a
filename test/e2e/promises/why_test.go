//go:build e2e

package promises

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestWhyNamesTheCause makes claims and a snapshot wait, each for another cause.
// `kubectl openstack-csi why` names the cause in its first sentence. Claims of which the cause ends
// are bound.
func TestWhyNamesTheCause(t *testing.T) {
	x := use(t, kind{tls: true})
	x.ignoreSnapshot("why-snapshot") // the grace period of a snapshot passes meanwhile
	for _, part := range []struct {
		name string
		run  func(*test)
	}{
		{"lease", (*test).explainsLease},
		{"image", (*test).explainsImage},
		{"share-type", (*test).explainsShareType},
		{"login", (*test).explainsLogin},
		{"quota", (*test).explainsQuota},
		{"snapshot", (*test).explainsSnapshot},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(&test{&pods.Test{T: t, Cluster: x.Cluster}})
		})
	}
}

// explainsLease kills the leader of the provisioner. Its Lease then expires after 15 s.
func (x *test) explainsLease() {
	for _, o := range x.Cluster.Operators {
		if o.Driver == "manila" {
			x.killLeaders(workload{o.OperandNamespace, o.Workloads[0], true})
		}
	}
	x.Claim("why-lease", pods.ClaimSpec(pods.Manila()))
	x.awaitCause("pvc/why-lease", "no provisioner leads, so new claims wait: Lease "+
		"manila-csi-openstack-org")
	x.awaitBound("why-lease")
}

// explainsImage selects an image that no node can pull. Pods that run stay.
func (x *test) explainsImage() {
	const set = "kubectl set env deployment/manila-csi-driver-operator " +
		"--namespace=openshift-cluster-csi-drivers DRIVER_IMAGE="
	image, err := guide.Output(x.T.Context(), "kubectl get deployment "+
		"manila-csi-driver-operator --namespace=openshift-cluster-csi-drivers -o "+
		`jsonpath='{.spec.template.spec.containers[0].env[?(@.name=="DRIVER_IMAGE")].value}'`,
		x.terminal()...)
	x.Must(err)
	restore := func(ctx context.Context) error { return guide.Run(ctx, set+image, x.terminal()...) }
	x.CleanUp(restore)
	x.Must(guide.Run(x.T.Context(), set+"registry.invalid/driver:none", x.terminal()...))
	x.Eventually("Ready names the container", func() error {
		ready, err := guide.Output(x.T.Context(), "kubectl get clustercsidriver "+
			"manila.csi.openstack.org -o "+
			`jsonpath='{.status.conditions[?(@.type=="Ready")].message}'`, x.terminal()...)
		if err == nil && !strings.Contains(ready, "container csi-driver is in ImagePullBackOff") {
			err = fmt.Errorf("the message of Ready is %q", ready)
		}
		return err
	})
	// The container has the same image.
	x.awaitCause("daemonset/openstack-manila-csi-nodeplugin",
		"container wait-for-nfs-plugin is in ImagePullBackOff")
	x.Must(restore(x.T.Context()))
	x.Must(guide.Run(x.T.Context(), "kubectl wait clustercsidriver/manila.csi.openstack.org "+
		"--for=condition=Ready --timeout=5m", x.terminal()...))
}

// explainsShareType removes the share type of a StorageClass.
func (x *test) explainsShareType() {
	cloud, class := x.Cluster.Cloud(), pods.Class{Name: "csi-manila-why", Mode: pods.Manila().Mode}
	x.Must(cloud.AddShareType(simulator.ShareType{Name: "why"}))
	classes := x.Cluster.Client.StorageV1().StorageClasses()
	x.CleanUp(func(ctx context.Context) error {
		return classes.Delete(ctx, class.Name, metav1.DeleteOptions{})
	})
	x.Eventually("the share type has a StorageClass", func() error {
		_, err := classes.Get(x.T.Context(), class.Name, metav1.GetOptions{})
		return err
	})
	x.Must(cloud.RemoveShareType("why"))
	x.Claim("why-share-type", pods.ClaimSpec(class))
	x.awaitCause("pvc/why-share-type", `share type "why" is gone`)
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
	x.awaitCause("pvc/why-quota", "the quota of the OpenStack project is full")
	x.Must(cloud.ClearFaults(fault.ID))
	x.awaitBound("why-quota")
}

// ignoreSnapshot stops the snapshot controller, and creates a VolumeSnapshot.
func (x *test) ignoreSnapshot(name string) {
	x.T.Helper()
	const controller = "deployment/snapshot-controller -n kube-system "
	x.CleanUp(func(ctx context.Context) error {
		return guide.Run(ctx, "kubectl scale --replicas=1 "+controller+
			"\nkubectl delete volumesnapshot/"+name+"\nkubectl rollout status "+controller, x.terminal()...)
	})
	x.Must(guide.Run(x.T.Context(), "kubectl scale --replicas=0 "+controller+`
kubectl wait pods -n kube-system -l app=snapshot-controller --for=delete
kubectl create -f - <<END
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: `+name+`}
spec:
  volumeSnapshotClassName: csi-manila-standard
  source: {persistentVolumeClaimName: none}
END
`, x.terminal()...))
}

// explainsSnapshot also waits for the condition. The operator lists VolumeSnapshots when it starts,
// and then every five minutes.
func (x *test) explainsSnapshot() {
	x.Within(diagnosis.SnapshotGrace+time.Minute, "why names the cause", func() error {
		return x.hasCause("volumesnapshot/why-snapshot",
			"no snapshot controller has processed the snapshot")
	})
	x.scaleOperators(0)
	x.scaleOperators(1)
	x.Must(guide.Run(x.T.Context(), "kubectl wait clustercsidriver/manila.csi.openstack.org "+
		"--for=condition=ManilaSnapshotsServed=False --timeout=2m", x.terminal()...))
}

// terminal returns the environment of a terminal of an administrator.
func (x *test) terminal() []string {
	return []string{
		"KUBECONFIG=" + x.Cluster.Dir.AdminKubeconfig(),
		"PATH=" + x.Cluster.Binaries + ":" + os.Getenv("BIN_DIR") + ":" + os.Getenv("PATH"),
	}
}

// awaitCause waits until the plugin names the cause for an object.
func (x *test) awaitCause(object, cause string) {
	x.T.Helper()
	x.Eventually("why names the cause", func() error { return x.hasCause(object, cause) })
}

// hasCause returns nil if the plugin's first sentence is the cause.
func (x *test) hasCause(object, cause string) error {
	output, err := guide.Output(x.T.Context(), "kubectl openstack-csi why "+object, x.terminal()...)
	first, _, _ := strings.Cut(output, "\n  ") // the first link of the chain
	if text := strings.Join(strings.Fields(first), " "); err == nil ||
		!strings.HasPrefix(text, object+" is ") || !strings.Contains(text, cause) {
		return fmt.Errorf("want exit code 1 and %q: %w\n%s", cause, err, output)
	}
	x.T.Logf("%s", output)
	return nil
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
