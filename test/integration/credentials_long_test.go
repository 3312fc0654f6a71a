//go:build integration && long

package integration

import (
	"fmt"
	"os"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// tokenTTL is the lifetime of the tokens of TestReachesPrivateCloudThroughProxy.
const tokenTTL = 3 * time.Second

func TestReachesPrivateCloudThroughProxy(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		Cloud: simulator.Config{TLS: true, AdvertisedHost: "cloud.example.test", TokenTTL: tokenTTL},
		NoCA:  true, Idle: true,
	})
	proxy := startProxy(t, e.cloud.Info())
	e.options.Env = append(e.options.Env, "HTTPS_PROXY="+proxy.url)
	e.options.Args = append(e.options.Args, "--cloud-ca-file="+e.caBundlePath())
	e.startOperator()
	e.parts(
		part{"FindsPrivateCA", e.findsPrivateCA},
		part{"LogsInWhenTokenExpires", e.logsInWhenTokenExpires},
		part{"UsesProxyOfEnvironment", func() { e.mustUseProxy(proxy) }},
	)
}

// findsPrivateCA checks each file that may contain the CA, and the message without a CA. The file
// wins over a path of the installer's host in clouds.yaml.
func (e *env) findsPrivateCA() {
	another := e.file("another-ca.pem")
	for _, place := range []struct{ name, file, cacert string }{
		{"beside clouds.yaml", e.caPath(), ""},
		{"in the legacy file", e.caBundlePath(), ""},
		{"named by clouds.yaml", another, another},
		{"beside clouds.yaml with another path", e.caPath(), "/home/installer/ca.pem"},
	} {
		e.sub(place.name, func(*testing.T) {
			clouds := e.cloud.CloudsYAML(simulator.Clouds{CACert: place.cacert})
			e.must(paths.WriteFile(e.files.OpenStackClouds(e.subject.Name), clouds))
			e.eventually(soon, func() error { // at first OpenStack has not answered yet
				return e.hasCondition(reachable, opv1.ConditionFalse, unreachableReason,
					"unknown authority", "cacert")
			})
			e.must(paths.WriteFile(place.file, e.ca))
			e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
			e.awaitAvailable()
			e.must(os.Remove(place.file))
		})
	}
}

func (e *env) logsInWhenTokenExpires() {
	e.must(paths.WriteFile(e.caPath(), e.ca))
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.eventually(soon, func() error { return e.hasCondition(reachable, opv1.ConditionTrue, "") })
	e.awaitAvailable()
	e.awaitNoWrites()
	start, first := time.Now(), e.cloud.Counters().LoginAttempts
	logins := 0
	e.eventually(soon, func() error {
		if logins = e.cloud.Counters().LoginAttempts - first; logins < 2 {
			return fmt.Errorf("%d logins, want 2", logins)
		}
		return nil
	})
	if most := int(time.Since(start)/tokenTTL) + 1; logins > most {
		e.t.Errorf("%d logins in %v with tokens of %v, want %d", logins, time.Since(start), tokenTTL,
			most)
	}
	e.must(e.available())
}
