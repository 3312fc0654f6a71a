//go:build integration

package integration

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	manilaAccepted = "ManilaCredentialsAccepted"
	cinderAccepted = "CinderCredentialsAccepted"
	wrongPassword  = "leaked-password-that-openstack-refuses"
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

// acceptanceCases runs a test for both operators in both flavours.
func acceptanceCases(t *testing.T, test func(*env), args ...string) {
	t.Helper()
	for _, f := range flavour.All() {
		for _, s := range subjects() {
			t.Run(string(f)+" "+s.Program, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Flavour: f, Subject: s, Args: args})
				e.awaitAvailable()
				e.eventually(soon, func() error {
					return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "")
				})
				e.awaitNoWrites()
				test(e)
			})
		}
	}
}

// TestRefusedCredentialsDoNotRollOut checks the driver's own credentials, even if the operator's
// are good.
func TestRefusedCredentialsDoNotRollOut(t *testing.T) {
	t.Parallel()
	acceptanceCases(t, func(e *env) {
		e.secrets = append(e.secrets, wrongPassword)
		before, good := e.workloads(), string(e.cloud.CloudsYAML(simulator.Clouds{}))
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
		e.putDriverCredentials(good + "# others\n")
		e.eventually(soon, func() error { return e.rolled(before) })
		e.eventually(soon, func() error {
			return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "")
		})
		e.awaitAvailable()
		e.awaitNoWrites()
		e.must(e.rolled(before))
	})
}

// loginSecret returns csi-manila-secrets, which Manila's driver reads at each call. Cinder's
// driver reads none.
func (e *env) loginSecret() (map[string]string, error) {
	if !e.subject.isManila() {
		return nil, nil
	}
	return e.operandSecret("csi-manila-secrets")
}

// TestUnverifiedCredentialsRollOutAfterWait checks the flag --credentials-wait.
func TestUnverifiedCredentialsRollOutAfterWait(t *testing.T) {
	t.Parallel()
	const wait = 8 * time.Second
	acceptanceCases(t, func(e *env) {
		before, good := e.workloads(), string(e.cloud.CloudsYAML(simulator.Clouds{}))
		recovered := e.fault(statusFault(simulator.Identity, http.StatusServiceUnavailable))
		since, watch := e.mark(), e.watchConditions()
		e.putDriverCredentials(good + "# others\n")
		e.eventually(soon, func() error { // the wait may be over by now
			return watch.has(e.credentialsCondition(), opv1.ConditionFalse, unreachableReason,
				"HTTP 503", "keeps its old credentials")
		})
		e.eventually(soon+wait, func() error { return e.rolled(before) })
		for _, resource := range []string{"deployments", "daemonsets"} {
			for _, r := range e.requests(since, request.isWrite, ofResource(resource)) {
				if waited := r.Time.Sub(since.time); waited < wait {
					e.t.Errorf("this write waited for %v, want %v: %s", waited, wait, r)
				}
			}
		}
		e.eventually(soon, func() error {
			return e.credentialsPending("HTTP 503", "uses them anyway")
		})
		recovered()
		e.eventually(soon, func() error {
			return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "")
		})
		e.awaitAvailable()
		e.awaitNoWrites()
		e.must(e.rolled(before))
	}, "--credentials-wait="+wait.String())
}

func TestCredentialsReportExpiry(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]subject{"Manila": manila(), "Cinder": cinder()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expiry := time.Now().Add(13 * 24 * time.Hour)
			e := newEnv(t, options{
				Subject: s,
				Cloud: simulator.Config{Credentials: simulator.Credentials{
					ApplicationCredentialExpiry: expiry,
				}},
				Clouds: simulator.Clouds{Auth: simulator.ApplicationCredential},
			})
			e.awaitAvailable()
			e.eventually(soon, func() error {
				return e.reports(name+"CredentialsExpireSoon", expiry.UTC().Format("2006-01-02 15:04"))
			})
			e.must(e.hasCondition(name+"CredentialsExpireSoon", opv1.ConditionTrue, "ExpiresSoon"))
			e.eventually(soon, func() error { return e.hasEvent(name + "CredentialsExpireSoon") })
		})
	}
}
