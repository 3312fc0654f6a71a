//go:build integration

package integration

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// cinderLogin is the Secret with the login of Cinder's driver.
	cinderLogin = "openstack-cinder-csi-driver-login"

	wrongPassword = "leaked-password-that-openstack-refuses"
	keepsLogin    = "The driver keeps the earlier login"
	keepsAll      = "Nothing that runs changes"
)

// driverState is what a login may change.
type driverState struct {
	workloads map[string]workload
	// login is the Secret of the accepted login, and conf is Cinder's cloud-conf.
	login, conf map[string]string
}

func (e *env) driverState() driverState {
	e.t.Helper()
	login, err := e.login()
	e.must(err)
	state := driverState{workloads: e.workloads(), login: login}
	if !e.subject.isManila() {
		state.conf, err = e.cloudConf()
		e.must(err)
	}
	return state
}

// login returns the Secret that the operator generates from the accepted login.
func (e *env) login() (map[string]string, error) {
	if e.subject.isManila() {
		return e.operandSecret(loginSecret)
	}
	return e.management.secret(e.ctx(), e.subject.controllerNamespace, cinderLogin)
}

// stillHas returns nil if the state of the driver has not changed.
func (e *env) stillHas(before driverState) error {
	now := e.driverState()
	if !maps.Equal(before.login, now.login) {
		return errors.New("the login of the driver changed") // the difference is secret
	}
	return errors.Join(checkEqual(before.conf, now.conf), checkEqual(before.workloads, now.workloads))
}

// awaitIdle waits until the driver is available and the operator writes nothing.
func (e *env) awaitIdle() driverState {
	e.t.Helper()
	e.awaitAvailable()
	e.awaitNoWrites()
	return e.driverState()
}

// hasRolledOut returns nil if these workloads have changed once, and no other one has.
func (e *env) hasRolledOut(before map[string]workload, names ...string) error {
	want, got := map[string]int64{}, map[string]int64{}
	for name, was := range before {
		now, err := e.workload(name)
		if err != nil {
			return err
		}
		want[name], got[name] = 0, now.Generation-was.Generation
		if slices.Contains(names, name) {
			want[name] = 1
		}
	}
	return checkEqual(want, got)
}

// mustRollOutOnly waits until the pod templates of these workloads have changed once, and checks
// that no other one changes.
func (e *env) mustRollOutOnly(before driverState, names ...string) {
	e.t.Helper()
	check := func() error { return e.hasRolledOut(before.workloads, names...) }
	e.eventually(soon, check)
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(check())
}

// rolledOutByLogin returns the workloads that another login rolls out.
func (e *env) rolledOutByLogin() []string {
	return ofSubject(e.subject, nil, []string{cinderController})
}

// hasTestOf returns nil if the condition about the credentials has the status, and a message that
// contains all texts.
func (e *env) hasTestOf(status opv1.ConditionStatus, reason string, texts ...string) error {
	accepted := ofSubject(e.subject, "Manila", "Cinder") + "CredentialsAccepted"
	return e.hasCondition(accepted, status, reason, texts...)
}

func (e *env) credentialsAccepted() error { return e.hasTestOf(opv1.ConditionTrue, "") }

// uselessCredentials are those with which the driver could not work. Without data they are missing.
type uselessCredentials struct {
	name, reason, message string
	data                  map[string][]byte
}

// uselessCredentials returns some of each kind. The cloud serves TLS.
func (e *env) uselessCredentials() []uselessCredentials {
	e.t.Helper()
	e.secrets = append(e.secrets, wrongPassword)
	good := string(e.cloud.CloudsYAML(simulator.Clouds{}))
	clouds := func(text string) map[string][]byte {
		return map[string][]byte{"clouds.yaml": []byte(text), "cacert": e.ca}
	}
	return []uselessCredentials{
		{
			"unscoped", "InvalidCredentials", "key clouds.yaml of Secret",
			clouds(regexp.MustCompile(` *project_.*\n`).ReplaceAllString(good, "")),
		},
		{
			"wrong password", refusedReason, "HTTP 401",
			clouds(strings.ReplaceAll(good, e.options.Cloud.Credentials.Password, wrongPassword)),
		},
		{"missing", "InvalidCredentials", "is missing", nil},
	}
}

// useCredentials writes the credentials Secrets, or deletes them if there are none to write.
func (e *env) useCredentials(data map[string][]byte) {
	e.t.Helper()
	if data != nil {
		e.setCredentials(data)
		return
	}
	for _, at := range e.driverNamespaces() {
		e.must(at.cluster.kube.CoreV1().Secrets(at.namespace).
			Delete(e.ctx(), e.driverSecret(), metav1.DeleteOptions{}))
	}
}

func (e *env) driverSecret() string { return e.subject.Credentials[0].Name }

// waitsForUsefulCredentials checks that a new driver gets none of the useless credentials, and that
// conditions say why it waits.
func (e *env) waitsForUsefulCredentials() {
	for _, u := range e.uselessCredentials() {
		e.sub(u.name, func(*testing.T) {
			e.useCredentials(u.data)
			e.eventually(soon, func() error { // several controllers write these conditions
				found := e.hasCondition(ready, opv1.ConditionFalse, u.reason, u.message)
				if e.subject.isManila() {
					return errors.Join(found, e.reports(disabled, u.message))
				}
				return errors.Join(found,
					e.hasTestOf(opv1.ConditionFalse, u.reason, u.message, keepsAll))
			})
			if e.subject.isManila() {
				e.mustNotBeDeployed()
			}
			if _, err := e.login(); !apierrors.IsNotFound(err) {
				e.t.Errorf("reading the login of the driver: got %v, want none", err)
			}
		})
	}
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.awaitAvailable()
	e.eventually(soon, e.credentialsAccepted)
}

// keepsLoginOfUsefulCredentials checks that useless credentials change nothing, also after a
// restart of the operator, and that useful ones roll out only the Deployment of Cinder, once.
func (e *env) keepsLoginOfUsefulCredentials() {
	before := e.awaitIdle()
	for _, u := range e.uselessCredentials() {
		e.sub(u.name, func(*testing.T) {
			e.useCredentials(u.data)
			e.eventually(soon, func() error {
				return e.hasTestOf(opv1.ConditionFalse, u.reason, u.message, keepsLogin)
			})
			e.awaitNoWrites()
			e.must(e.stillHas(before))
			e.restartOperator()
			e.eventually(soon, func() error {
				return e.hasTestOf(opv1.ConditionFalse, u.reason, u.message, keepsAll)
			})
			e.awaitNoWrites()
			e.must(e.stillHas(before))
			e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
			e.eventually(soon, e.credentialsAccepted)
			e.awaitIdle()
			e.must(e.stillHas(before))
		})
	}
	e.setClouds(append(e.cloud.CloudsYAML(simulator.Clouds{}), "# the same login\n"...))
	e.awaitIdle()
	e.must(e.stillHas(before))
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.mustRollOutOnly(before, e.rolledOutByLogin()...)
	e.eventually(soon, e.credentialsAccepted)
}
