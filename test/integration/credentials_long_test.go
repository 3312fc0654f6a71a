//go:build integration && long

package integration

import (
	"fmt"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

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
	e.startOperator()
	e.parts(
		part{"FindsPrivateCA", e.findsPrivateCA},
		part{"LogsInWhenTokenExpires", e.logsInWhenTokenExpires},
		part{"UsesProxyOfEnvironment", func() { e.mustUseProxy(proxy) }},
	)
}

// findsPrivateCA checks each place of the CA, and the messages without a CA.
func (e *env) findsPrivateCA() {
	ofInstaller := e.cloud.CloudsYAML(simulator.Clouds{CACert: "/home/installer/ca.pem"})
	for text, message := range map[string]string{
		string(e.cloud.CloudsYAML(simulator.Clouds{})): "unknown authority",
		string(ofInstaller):                            "has a path",
	} {
		e.setClouds([]byte(text))
		e.eventually(soon, func() error { return e.reports(disabled, message, "cacert") })
	}
	want := e.passwordTranslation()
	for _, place := range []string{"Secret", "ConfigMap", "clouds.yaml"} {
		e.sub(place, func(*testing.T) {
			ca, configMap := string(e.ca)+"# in "+place+"\n", map[string]string{}
			data := map[string][]byte{"clouds.yaml": e.cloud.CloudsYAML(simulator.Clouds{})}
			switch place {
			case "Secret":
				data["clouds.yaml"], data["cacert"] = ofInstaller, []byte(ca)
				configMap[caKeyOfCloudProvider] = string(e.ca)
			case "ConfigMap":
				data["clouds.yaml"], configMap[caKeyOfCloudProvider] = ofInstaller, ca
			default:
				data["clouds.yaml"] = e.cloud.CloudsYAML(simulator.Clouds{CACert: ca})
			}
			e.putConfigMap(openshiftConfig, cloudProviderConfig, configMap)
			e.setCredentials(data)
			want[caKeyOfDriver] = ca
			e.eventually(soon, func() error { return e.hasTranslation(want) })
			e.awaitAvailable()
			e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
		})
	}
}

func (e *env) logsInWhenTokenExpires() {
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
