//go:build integration

package integration

import (
	"fmt"
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

// acceptedOf is the condition about the credentials of the driver.
func (e *env) credentialsCondition() string {
	if e.subject.name == cinder().name {
		return cinderAccepted
	}
	return manilaAccepted
}

// putDriversCredentials changes the Secrets that the driver reads, but not the operator's own files.
func (e *env) putDriverCredentials(text string) {
	e.t.Helper()
	data := map[string][]byte{"clouds.yaml": []byte(text)}
	name := e.subject.credentials[len(e.subject.credentials)-1]
	if e.flavour == flavour.HyperShift { // first, as the hosted cluster's is a copy
		e.must(e.management.putSecret(e.ctx(), hostedNamespace, name[1], data))
	}
	e.putSecret(name[0], name[1], data)
}

// waits returns an error unless the driver's credentials are not accepted, with a message that has the texts.
func (e *env) credentialsPending(texts ...string) error {
	if err := e.hasCondition(e.credentialsCondition(), opv1.ConditionFalse, ""); err != nil {
		return err
	}
	message := e.message(e.credentialsCondition())
	for _, text := range texts {
		if !strings.Contains(message, text) {
			return fmt.Errorf("the message of %s is %q, want it to say %q", e.credentialsCondition(), message, text)
		}
	}
	return nil
}

// unrolled returns an error if a workload has changed.
func (e *env) notRolledOut(before map[string]workload) error {
	for name := range before {
		after, err := e.workload(name)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(before[name], after); diff != "" {
			return fmt.Errorf("%s changed (-before +after):\n%s", name, diff)
		}
	}
	return nil
}

// rolled returns an error unless all workloads with credentials have rolled out once.
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

// acceptanceCases are both operators in both flavours.
func acceptanceCases(t *testing.T, test func(*env), args ...string) {
	t.Helper()
	for _, f := range flavour.All() {
		for name, s := range map[string]subject{"manila": manila(), "cinder": cinder()} {
			t.Run(string(f)+" "+name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Flavour: f, Subject: s, Args: args})
				e.awaitAvailable()
				e.eventually(soon, func() error { return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "") })
				e.awaitNoWrites()
				test(e)
			})
		}
	}
}

// TestRefusedCredentialsDoNotRollOut: the driver's own credentials are tried, also where the operator's own are good. Pods keep what
// they have until OpenStack accepts the new ones.
func TestRefusedCredentialsDoNotRollOut(t *testing.T) {
	t.Parallel()
	acceptanceCases(t, func(e *env) {
		e.secrets = append(e.secrets, wrongPassword)
		before, good := e.workloads(), string(e.cloudsYAML(simulator.Clouds{}))
		driverSecret, err := e.driverSecret()
		e.must(err)
		e.putDriverCredentials(strings.ReplaceAll(good, e.options.Cloud.Credentials.Password, wrongPassword))
		e.eventually(soon, func() error { return e.credentialsPending("refused the login", "keeps the credentials it has") })
		e.must(e.hasCondition(e.credentialsCondition(), opv1.ConditionFalse, refusedReason))
		e.awaitNoWrites()
		e.must(e.notRolledOut(before))
		e.must(e.available())
		now, err := e.driverSecret()
		e.must(err)
		if diff := cmp.Diff(driverSecret, now); diff != "" {
			e.t.Error("the Secret that the driver reads at each call has refused credentials")
		}
		e.putDriverCredentials(good + "# others\n")
		e.eventually(soon, func() error { return e.rolled(before) })
		e.eventually(soon, func() error { return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "") })
		e.awaitAvailable()
		e.awaitNoWrites()
		e.must(e.rolled(before))
	})
}

// driverSecret is what Manila's driver reads at each call; Cinder's reads none.
func (e *env) driverSecret() (map[string]string, error) {
	if e.subject.name == cinder().name {
		return nil, nil
	}
	return e.operandSecret("csi-manila-secrets")
}

// TestUnansweredCredentialsRollOutInTheEnd: while OpenStack does not answer, the rollout waits, but not for ever.
func TestUnansweredCredentialsRollOutInTheEnd(t *testing.T) {
	t.Parallel()
	const wait = 8 * time.Second
	acceptanceCases(t, func(e *env) {
		before, good := e.workloads(), string(e.cloudsYAML(simulator.Clouds{}))
		recovered := e.fault(simulator.Fault{Mode: simulator.Status, Service: simulator.Identity, Status: 503})
		began := time.Now()
		e.putDriverCredentials(good + "# others\n")
		e.eventually(soon, func() error { return e.credentialsPending("HTTP 503", "keeps the credentials it has") })
		e.must(e.hasCondition(e.credentialsCondition(), opv1.ConditionFalse, "CloudUnreachable"))
		if time.Since(began) < wait/2 {
			e.must(e.notRolledOut(before))
		}
		e.eventually(soon+wait, func() error { return e.rolled(before) })
		if took := time.Since(began); took < wait {
			e.t.Errorf("the rollout waited for %v, want %v", took, wait)
		}
		e.eventually(soon, func() error { return e.credentialsPending("HTTP 503", "uses them all the same") })
		recovered()
		e.eventually(soon, func() error { return e.hasCondition(e.credentialsCondition(), opv1.ConditionTrue, "") })
		e.awaitAvailable()
		e.awaitNoWrites()
		e.must(e.rolled(before))
	}, "--credentials-wait="+wait.String())
}

// TestExpiringCredential: an application credential that ends soon is in a condition, an event and a metric.
func TestExpiringCredential(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]subject{"Manila": manila(), "Cinder": cinder()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expiry := time.Now().Add(13 * 24 * time.Hour)
			e := newEnv(t, options{
				Subject: s,
				Cloud:   simulator.Config{Credentials: simulator.Credentials{ApplicationCredentialExpiry: expiry}},
				Clouds:  simulator.Clouds{Auth: simulator.ApplicationCredential},
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
