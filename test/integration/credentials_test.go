//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// rotate changes the credentials that the cloud accepts.
func (e *env) rotate(rotation simulator.Rotation) {
	e.t.Helper()
	rotation.Password, rotation.ApplicationCredentialSecret = "leaked-password-rotated",
		"leaked-application-secret-rotated"
	e.cloud.RotateCredentials(rotation)
	e.secrets = append(e.secrets, rotation.Password, rotation.ApplicationCredentialSecret)
}

// usesRotatedCredentials checks that the operator uses new credentials even after the cloud refused
// the old ones.
func (e *env) usesRotatedCredentials() {
	e.awaitAvailable()
	e.rotate(simulator.Rotation{})
	e.eventually(soon, func() error {
		return e.hasCondition(reachable, opv1.ConditionFalse, refusedReason)
	})
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
	e.must(e.hasNoCondition(disabled))
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.awaitPolls(1)
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
	e.awaitAvailable()
}

// TestChangedCloudsYAMLCausesOneLogin checks a change while the old token is still valid.
func TestChangedCloudsYAMLCausesOneLogin(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.awaitAvailable()
	e.rotate(simulator.Rotation{KeepTokens: true})
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	e.awaitPolls(2)
	if logins := e.cloud.Counters().Logins; logins != 2 {
		t.Errorf("there were %d logins, want one with the old credentials and one with the new", logins)
	}
	e.awaitPolls(2)
	if logins := e.cloud.Counters().LoginAttempts; logins != 2 {
		t.Errorf("there were %d logins, want two", logins)
	}
	e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
}

// malformed is an invalid clouds.yaml that contains a secret, which no message may quote.
type malformed struct{ name, text, message string }

func malformedCloudsYAML(secret string) []malformed {
	return []malformed{
		{"no YAML", "clouds: {openstack: {auth: {password: '" + secret + "\n", "not valid YAML"},
		{
			"no auth_url", "clouds: {openstack: {auth: {username: u, password: " + secret + "}}}\n",
			"clouds.openstack.auth lacks auth_url",
		},
		{"another type", "clouds:\n  openstack:\n    auth: [" + secret + "]\n", "(line 3)"},
		{
			"other entries", "clouds:\n  a: {auth: {auth_url: 'http://127.0.0.1', password: " + secret +
				"}}\n" +
				"  b: {auth: {auth_url: 'http://127.0.0.1', password: " + secret + "}}\n",
			"no entry clouds.openstack",
		},
		{"no login", "clouds: {openstack: {auth: {auth_url: 'http://127.0.0.1:1/v3', domain_name: " +
			secret + "}}}\n", "password"},
		{"empty", "", "is empty"},
	}
}

// TestInvalidCloudsYAMLIsReported checks that the same process uses clouds.yaml when it is fixed.
func TestInvalidCloudsYAMLIsReported(t *testing.T) {
	t.Parallel()
	const secret = "leaked-by-a-malformed-file"
	e := newEnv(t, options{Idle: true, NoCredentials: true})
	e.secrets = append(e.secrets, secret)
	e.createCloudConfig()
	p := e.startOperator() // without any file
	e.eventually(soon, func() error {
		return e.hasCondition(disabled, opv1.ConditionTrue, "InvalidCredentials")
	})
	for _, m := range malformedCloudsYAML(secret) {
		e.setClouds([]byte(m.text))
		want := outageCase{name: m.name, reason: "InvalidCredentials", message: m.message}
		e.eventually(soon, func() error { return e.reportsOutage(disabled, opv1.ConditionTrue, want) })
		e.checkDriverForSecrets()
		e.mustNotBeDeployed()
	}
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
	if total := e.cloud.Counters().Total(); total > 0 {
		t.Errorf("the operator sent %d requests without a valid clouds.yaml", total)
	}
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.awaitAvailable()
	e.mustStillRun(p)
}

func (e *env) keepsDriverForInvalidCloudsYAML() {
	e.awaitAvailable()
	e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name), []byte("clouds: [\n")))
	e.eventually(soon, func() error {
		return e.hasCondition(reachable, opv1.ConditionFalse, "InvalidCredentials")
	})
	e.awaitNoWrites()
	e.expectNoWritesDuring(3)
	e.must(e.available())
	text := e.cloud.CloudsYAML(simulator.Clouds{})
	e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name), text))
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
}

func TestUsesRegionOfCloudsYAML(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		Cloud:  simulator.Config{Regions: []string{"RegionOne", "RegionTwo"}},
		Clouds: simulator.Clouds{Region: "RegionTwo"},
	})
	e.awaitAvailable()
	requests := e.cloud.Log()
	for _, r := range requests {
		if r.Service == simulator.Share && r.Region != "RegionTwo" {
			t.Errorf("the operator requested share types of region %q, want RegionTwo", r.Region)
		}
	}
	text := string(e.cloud.CloudsYAML(e.options.Clouds))
	e.setClouds([]byte(strings.ReplaceAll(text, "RegionTwo", "RegionThree")))
	e.eventually(soon, func() error {
		return e.hasCondition(disabled, opv1.ConditionTrue, "NoManila")
	})
	if message := e.message(disabled); !strings.Contains(message, "RegionThree") {
		t.Errorf("the message %q does not name the region", message)
	}
}

// TestAcceptsApplicationCredentials checks application credentials with an ID and with a name.
func TestAcceptsApplicationCredentials(t *testing.T) {
	t.Parallel()
	for _, auth := range []simulator.Auth{
		simulator.ApplicationCredential,
		simulator.NamedApplicationCredential,
	} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Clouds: simulator.Clouds{Auth: auth}})
			e.awaitAvailable()
			e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
		})
	}
}

// TestFindsPrivateCA checks each file that may contain the CA, and the message without a CA.
func TestFindsPrivateCA(t *testing.T) {
	t.Parallel()
	path := func(e *env) string { return e.file("another-ca.pem") }
	places := map[string]func(*env){
		"beside clouds.yaml": func(e *env) { e.must(paths.WriteFile(e.caPath(), e.ca)) },
		"in the legacy file": func(e *env) { e.must(paths.WriteFile(e.caBundlePath(), e.ca)) },
		"named by clouds.yaml": func(e *env) {
			e.must(paths.WriteFile(path(e), e.ca))
			clouds := e.cloud.CloudsYAML(simulator.Clouds{CACert: path(e)})
			e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name), clouds))
		},
	}
	for name, put := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Cloud: simulator.Config{TLS: true}, NoCA: true, Idle: true})
			e.options.Args = append(e.options.Args, "--cloud-ca-file="+e.caBundlePath())
			e.startOperator()
			e.eventually(soon, func() error { // at first it may say that OpenStack has not answered yet
				if err := e.hasCondition(disabled, opv1.ConditionTrue, unreachableReason); err != nil {
					return err
				}
				if message := e.message(disabled); !strings.Contains(message, "unknown authority") ||
					!strings.Contains(message, "cacert") {
					return fmt.Errorf("without the CA the message is %q", message)
				}
				return nil
			})
			put(e)
			e.awaitAvailable()
		})
	}
}

// TestCAFileWinsOverPathInCloudsYAML checks that the operator ignores a path of the installer's
// host in clouds.yaml.
func TestCAFileWinsOverPathInCloudsYAML(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		Cloud:  simulator.Config{TLS: true},
		Clouds: simulator.Clouds{CACert: "/home/installer/ca.pem"},
	})
	e.awaitAvailable()
}

func TestUsesProxyOfEnvironment(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%t", tls), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{
				Cloud: simulator.Config{TLS: tls, AdvertisedHost: "cloud.example.test"},
				Idle:  true,
			})
			proxy := startProxy(t, e.cloud.Info())
			e.options.Env = append(e.options.Env, "HTTP_PROXY="+proxy.url, "HTTPS_PROXY="+proxy.url)
			e.startOperator()
			e.awaitAvailable()
			if proxy.served.Load() == 0 {
				t.Error("the proxy was not used")
			}
			proxy.close()
			e.eventually(soon, func() error {
				return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason)
			})
			if message := e.message(reachable); !strings.Contains(message, "proxy") {
				t.Errorf("without the proxy the message is %q", message)
			}
		})
	}
}
