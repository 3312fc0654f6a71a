//go:build integration

package integration

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	manilaAccepted = "ManilaCredentialsAccepted"
	cinderAccepted = "CinderCredentialsAccepted"
	wrongPassword  = "leaked-password-that-openstack-refuses"
	// credentialsWait is the value of --credentials-wait.
	credentialsWait = 8 * time.Second
)

// credentialsCondition returns the type of the condition about the driver's credentials.
func (e *env) credentialsCondition() string {
	return ofSubject(e.subject, manilaAccepted, cinderAccepted)
}

// putDriverCredentials changes the Secret that the driver reads, but not the operator's files.
func (e *env) putDriverCredentials(text string) {
	e.t.Helper()
	last := e.subject.Credentials[len(e.subject.Credentials)-1]
	e.putCredentials(last, map[string][]byte{"clouds.yaml": []byte(text)})
}

// credentialsAccepted returns nil if the condition says that the driver's credentials are accepted.
func (e *env) credentialsAccepted() error {
	return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "")
}

// credentialsPending returns nil if the condition says that the driver's credentials are not
// accepted, with a message that contains all texts.
func (e *env) credentialsPending(texts ...string) error {
	return e.hasCondition(e.credentialsCondition(), opv1.ConditionFalse, "", texts...)
}

// rolled returns nil if each workload with credentials has rolled out once.
func (e *env) rolled(before map[string]workload) error {
	for name := range before {
		after, err := e.workload(name)
		if err != nil {
			return err
		}
		if name == nfsNodeName {
			continue
		}
		if err := rolledOnce(before[name], after); err != nil {
			return err
		}
	}
	return nil
}

// TestOperatorsRunUnderRolesOfOpenShift runs each operator in each flavour with the Roles of
// cluster-storage-operator in place of the Roles of its manifests, once for each set of permissions
// that a supported release grants. These Roles do not contain `bind`, and for some kinds neither
// `patch` nor `list`. The test fails if the API server refuses a request. With the Roles of the
// oldest release, its parts test the driver's own credentials.
func TestOperatorsRunUnderRolesOfOpenShift(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		for _, s := range subjects() {
			if !long && (f != flavour.Standalone || s.isManila()) {
				continue
			}
			releases, err := s.DistinctReleases(f == flavour.HyperShift)
			if err != nil {
				t.Fatal(err)
			}
			if !long {
				releases = releases[:1]
			}
			for i, release := range releases {
				t.Run(s.Program+"/"+string(f)+"/"+release, func(t *testing.T) {
					t.Parallel()
					runUnderRolesOfOpenShift(t, options{
						Subject: s, Flavour: f, Before: func(e *env) { e.useRolesOfOpenShift(release) },
					}, i == 0)
				})
			}
		}
	}
}

// runUnderRolesOfOpenShift runs one operator, with or without the parts about credentials.
func runUnderRolesOfOpenShift(t *testing.T, o options, credentials bool) {
	t.Helper()
	o.Cloud = simulator.Config{Credentials: simulator.Credentials{
		ApplicationCredentialExpiry: time.Now().Add(13 * 24 * time.Hour),
	}}
	o.Args = []string{"--credentials-wait=" + credentialsWait.String()}
	e := newEnv(t, o)
	parts := []part{{"RecreatesObjects", e.recreatesObjects}}
	if credentials {
		parts = append(parts,
			part{"RefusedCredentialsDoNotRollOut", e.keepsDriverForRefusedCredentials},
			part{"UnverifiedCredentialsRollOutAfterWait", e.rollsOutUnverifiedCredentials},
			part{"CredentialsReportExpiry", e.reportsExpiry},
		)
	}
	e.parts(parts...)
}

// useRolesOfOpenShift replaces the Roles of the operator until the test ends.
func (e *env) useRolesOfOpenShift(release string) {
	e.t.Helper()
	environment, operator := e.running.Environments()[0], e.subject.Operator
	e.afterwards(func(ctx context.Context) error {
		return environment.RestoreRoles(ctx, operator, release)
	})
	e.must(environment.UseRolesOfOpenShift(e.ctx(), operator, release))
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

// awaitAcceptance waits until the driver runs with credentials that the cloud accepts, and returns
// its workloads and the good clouds.yaml.
func (e *env) awaitAcceptance() (map[string]workload, string) {
	e.t.Helper()
	e.awaitAvailable()
	e.eventually(soon, e.credentialsAccepted)
	e.awaitNoWrites()
	return e.workloads(), string(e.cloud.CloudsYAML(simulator.Clouds{}))
}

func (e *env) keepsDriverForRefusedCredentials() {
	e.secrets = append(e.secrets, wrongPassword)
	before, good := e.awaitAcceptance()
	loginSecret, err := e.loginSecret()
	e.must(err)
	e.putDriverCredentials(strings.ReplaceAll(good, e.options.Cloud.Credentials.Password,
		wrongPassword))
	e.eventually(soon, func() error {
		return e.credentialsPending("refused the login", "keeps its old credentials")
	})
	e.must(e.hasCondition(e.credentialsCondition(), opv1.ConditionFalse, refusedReason))
	e.awaitNoWrites()
	e.mustHaveWorkloads(before)
	e.must(e.available())
	now, err := e.loginSecret()
	e.must(err)
	if diff := cmp.Diff(loginSecret, now); diff != "" {
		e.t.Error("the driver Secret contains refused credentials")
	}
	e.putDriverCredentials(good + "# accepted\n")
	e.eventually(soon, func() error { return e.rolled(before) })
	e.awaitAcceptance()
	e.must(e.rolled(before))
}

// loginSecret returns csi-manila-secrets, which Manila's driver reads at each call. Cinder's
// driver reads none.
func (e *env) loginSecret() (map[string]string, error) {
	if !e.subject.isManila() {
		return nil, nil
	}
	return e.operandSecret(loginSecret)
}

func (e *env) rollsOutUnverifiedCredentials() {
	before, good := e.awaitAcceptance()
	recovered := e.fault(statusFault(simulator.Identity, http.StatusServiceUnavailable))
	since, watch := e.mark(), e.watchConditions()
	e.putDriverCredentials(good + "# unverified\n")
	e.eventually(soon, func() error { // the wait may be over by now
		return watch.has(e.credentialsCondition(), opv1.ConditionFalse, unreachableReason,
			"HTTP 503", "keeps its old credentials")
	})
	e.eventually(soon+credentialsWait, func() error { return e.rolled(before) })
	for _, resource := range []string{"deployments", "daemonsets"} {
		for _, r := range e.requests(since, request.isWrite, ofResource(resource)) {
			if waited := r.Time.Sub(since.time); waited < credentialsWait {
				e.t.Errorf("this write waited for %v, want %v: %s", waited, credentialsWait, r)
			}
		}
	}
	e.eventually(soon, func() error { return e.credentialsPending("HTTP 503", "uses them anyway") })
	recovered()
	e.awaitAcceptance()
	e.must(e.rolled(before))
}

// reportsExpiry checks the expiry of an application credential.
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
