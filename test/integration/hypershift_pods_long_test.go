//go:build integration && long

package integration

import (
	"fmt"
	"testing"
)

// TestHyperShiftReportsVersion checks the annotations of the Deployment.
// TestHyperShiftGoldenWorkloads checks images and proxies.
func TestHyperShiftReportsVersion(t *testing.T) {
	t.Parallel()
	o := options{Before: func(e *env) { e.setOperatorVersion("null") }}
	eachHosted(t, o, func(_ *testing.T, e *hostedEnv) { e.reportsVersionAfterRollout() })
}

// Annotations that report the progress of an upgrade to HyperShift.
const (
	desiredVersion = "release.openshift.io/desired-version"
	presentVersion = "release.openshift.io/version"
)

// hasVersions returns nil if the Deployment has these versions, or none if they are empty.
func (e *env) hasVersions(desired, present string) error {
	d, err := e.deployment()
	if err != nil {
		return err
	}
	got := [2]string{d.Annotations[desiredVersion], d.Annotations[presentVersion]}
	if want := [2]string{desired, present}; got != want {
		return fmt.Errorf("the versions are %q, want %q", got, want)
	}
	return nil
}

// setOperatorVersion changes the version annotation of the operator's own Deployment. "null"
// removes it.
func (e *env) setOperatorVersion(version string) {
	e.t.Helper()
	e.patchBesideController(resource("apps", "deployments"), e.subject.Name,
		`{"metadata":{"annotations":{"`+desiredVersion+`":`+version+`}}}`)
}

// reportsVersionAfterRollout checks an operator's Deployment without the annotation, and then a
// rollout that does not end.
func (e *hostedEnv) reportsVersionAfterRollout() {
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.hasVersions("", ""))
	e.setOperatorVersion(`"4.99.8"`)
	e.eventually(prompt, func() error { return e.hasVersions("4.99.8", "4.99.8") })
	e.awaitNoWrites()
	for _, name := range e.subject.Workloads[1:] { // only the controller's Deployment has versions
		node, err := e.daemonSet(name)
		e.must(err)
		if version, found := node.Annotations[desiredVersion]; found {
			e.t.Errorf("DaemonSet %s has version %s", name, version)
		}
	}
	e.patchControlPlane(`{"nodeSelector":{"no-such":"node"}}`)
	e.eventually(soon, e.isRollingOut)
	e.setOperatorVersion(`"4.99.9"`)
	e.eventually(prompt, func() error { return e.hasVersions("4.99.9", "4.99.8") })
	e.awaitNoWrites()
	e.must(e.hasVersions("4.99.9", "4.99.8"))
	e.patchControlPlane(`{"nodeSelector":null}`)
	e.eventually(soon, func() error { return e.hasVersions("4.99.9", "4.99.9") })
}

// isRollingOut returns nil while the Deployment waits for new pods.
func (e *env) isRollingOut() error {
	d, err := e.deployment()
	if err == nil && (d.Status.ObservedGeneration != d.Generation ||
		d.Status.UnavailableReplicas == 0) {
		err = fmt.Errorf("the Deployment has %d unavailable pods at generation %d of %d",
			d.Status.UnavailableReplicas, d.Status.ObservedGeneration, d.Generation)
	}
	return err
}
