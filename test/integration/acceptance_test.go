//go:build integration

package integration

import (
	"errors"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestOperatorsRunUnderRolesOfOpenShift runs each operator in each flavour with the Roles of
// cluster-storage-operator in place of the Roles of its manifests, once for each set of permissions
// that a supported release grants. These Roles do not contain `bind`, and for some kinds neither
// `patch` nor `list`. The test fails if the API server refuses a request. With the Roles of the
// oldest release, its parts test the driver's own credentials.
func TestOperatorsRunUnderRolesOfOpenShift(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.OnOpenShift() {
		for _, s := range subjects() {
			if !long && (f != flavour.Standalone || s.isManila()) {
				continue
			}
			releases, err := s.DistinctReleases(f == flavour.HyperShift)
			assert.NilError(t, err)
			if !long {
				releases = releases[:1]
			}
			for i, release := range releases {
				t.Run(s.Program+"/"+string(f)+"/"+release, func(t *testing.T) {
					t.Parallel()
					runUnderRolesOfOpenShift(t, options{Subject: s, Flavour: f, Before: func(e *env) {
						e.useRolesOfOpenShift(release)
						if i == 0 {
							e.useCredentials(e.uselessCredentials()[0].data)
						}
					}}, i == 0)
				})
			}
		}
	}
}

// runUnderRolesOfOpenShift runs one operator, with or without the parts about credentials.
func runUnderRolesOfOpenShift(t *testing.T, o options, credentials bool) {
	t.Helper()
	o.Cloud = simulator.Config{TLS: true, Credentials: simulator.Credentials{
		ApplicationCredentialExpiry: time.Now().Add(13 * 24 * time.Hour),
	}}
	e := newEnv(t, o)
	if credentials {
		e.parts(
			part{"WaitsForUsefulCredentials", e.waitsForUsefulCredentials},
			part{"KeepsLoginOfUsefulCredentials", e.keepsLoginOfUsefulCredentials},
			part{"UpdatesFormerLogin", e.updatesFormerLogin},
			part{"CredentialsReportExpiry", e.reportsExpiry},
		)
	}
	e.parts(part{"RecreatesObjects", e.recreatesObjects})
}

func (e *env) useRolesOfOpenShift(release string) {
	e.t.Helper()
	e.must(e.running.Environments()[0].UseRolesOfOpenShift(e.ctx(), e.subject.Operator, release))
}

func (e *env) recreatesObjects() {
	e.awaitAvailable()
	e.must(e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).
		Delete(e.ctx(), e.subject.Workloads[0], metav1.DeleteOptions{}))
	e.must(e.guest.kube.StorageV1().CSIDrivers().
		Delete(e.ctx(), e.subject.ClusterCSIDriver, metav1.DeleteOptions{}))
	e.eventually(prompt, func() error {
		_, missing := e.deployment()
		_, alsoMissing := e.guest.kube.StorageV1().CSIDrivers().
			Get(e.ctx(), e.subject.ClusterCSIDriver, metav1.GetOptions{})
		return errors.Join(missing, alsoMissing)
	})
}

func (e *env) reportsExpiry() {
	condition := ofSubject(e.subject, "Manila", "Cinder") + "CredentialsExpireSoon"
	expiry := e.options.Cloud.Credentials.ApplicationCredentialExpiry.UTC()
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.eventually(soon, func() error {
		return e.hasCondition(condition, opv1.ConditionTrue, "ExpiresSoon",
			expiry.Format("2006-01-02 15:04"))
	})
	e.eventually(soon, func() error { return e.hasEvent(condition) })
	e.awaitAvailable()
}
