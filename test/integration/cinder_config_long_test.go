//go:build integration && long

package integration

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// rescanText is a valid configuration of the driver. With it, rescan follows the generated part.
const rescanText = "[BlockStorage]\nrescan-on-resize = true\n"

// TestCinderWaitsForCloudAndConfig removes the obstacles to a start one by one, and then rejects
// invalid configurations of the running driver.
func TestCinderWaitsForCloudAndConfig(t *testing.T) {
	t.Parallel()
	other := standardStorageClass("true")
	other.Name, other.Provisioner = "of-an-administrator", "example.com/other"
	e := newCinder(t, options{Idle: true, Args: shortGrace(), Before: func(e *env) {
		e.createClass(&other)
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": rescanText})
	}})
	end := e.fault(simulator.Fault{Mode: simulator.Hang})
	e.startOperator()
	e.parts(
		part{"ReportsHangingFirstProbe", e.reportsHangingFirstProbe},
		part{"ProgressesUntilFirstProbe", func() { e.progressesUntilFirstProbe(end) }},
		part{"ReportsMissingCredentials", e.reportsMissingCredentials},
		part{"ReportsInvalidConfig", e.reportsInvalidConfig},
		part{"AppliesConfigBeforeFirstPod", e.appliesConfigBeforeFirstPod},
		part{"ClassIsNotSecondDefault", func() { e.must(e.isClass(standardStorageClass("false"))) }},
		part{"KeepsConfigWhileUserConfigIsInvalid", e.keepsConfigWhileUserConfigIsInvalid},
	)
}

// hasNotStarted returns nil if neither cloud-conf nor a workload exists.
func (e *cinderEnv) hasNotStarted() error {
	if conf, err := e.cloudConf(); err == nil {
		return fmt.Errorf("cloud-conf exists: %v", conf)
	}
	return e.hasNoWorkloads()
}

func (e *cinderEnv) reportsHangingFirstProbe() {
	e.eventually(prompt, func() error {
		return e.reports(cinderProgressing, "has not tested the credentials yet")
	})
	e.must(errors.Join(e.notDegraded(), e.hasNotStarted()))
}

// progressesUntilFirstProbe checks that the driver is degraded after the grace period. endHang ends
// the first obstacle.
func (e *cinderEnv) progressesUntilFirstProbe(endHang func()) {
	began := time.Now()
	e.fault(simulator.Fault{Mode: simulator.Unreachable})
	endHang()
	e.eventually(prompt, func() error { return e.reports(cinderProgressing, "refused") })
	e.eventually(soon, func() error {
		e.must(e.hasNotStarted())
		return e.reports(cinderDegraded, "refused", grace.String())
	})
	e.mustHaveWaited(began)
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	e.expectNoWritesFor(3 * time.Second)
	e.must(e.hasNotStarted())
}

func (e *cinderEnv) reportsInvalidConfig() {
	e.putUserConfig(map[string]string{"config": "[BlockStorage\n"})
	e.must(e.cloud.ClearFaults())
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.eventually(soon, func() error {
		return errors.Join(e.reports(cinderDegraded, "line 1", cinderUserConfig, "key config"),
			e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	})
	e.must(e.hasNotStarted())
}

// reportsMissingCredentials starts the operator without them.
func (e *cinderEnv) reportsMissingCredentials() {
	e.stopOperator()
	e.delete(secrets(), operatorNamespace, cinderCredentials)
	e.startOperator()
	e.eventually(soon, func() error { return e.reports(cinderDegraded, "is missing") })
	e.must(e.hasNotStarted())
}

func (e *cinderEnv) appliesConfigBeforeFirstPod() {
	e.putUserConfig(map[string]string{"config": "[BlockStorage]\nnode-volume-attach-limit = 25\n"})
	e.awaitAvailable()
	e.must(e.hasConf(attachLimit))
	ofCloudConf := func(r request) bool { return r.Name == cloudConf }
	writes := e.requests(e.began, request.isWrite, ofResource("configmaps"), ofCloudConf)
	if len(writes) != 1 {
		e.t.Errorf("%s was written %d times, want once:\n%s", cloudConf, len(writes), list(writes))
	}
}

// invalidConfig is a content of the driver's ConfigMap that the operator must reject.
type invalidConfig struct {
	key, text, message string
}

const administratorSecret = "leaked-by-the-administrator"

func invalidConfigs() map[string]invalidConfig {
	return map[string]invalidConfig{
		"no section": {"config", "[BlockStorage]\n\n]" + administratorSecret + "\n", "line 3"},
		"open quote": {"config", "[BlockStorage]\nrescan-on-resize = \"" + administratorSecret +
			"\n", "line 2"},
		"not a number": {"config", "# a comment\n[BlockStorage]\nnode-volume-attach-limit = " +
			administratorSecret + "\n", "line 3"},
		"not a boolean": {topologyKey, "perhaps", "neither true nor false"},
		"no = sign": {
			"config", "[BlockStorage]\npassword " + administratorSecret + "\n", "line 2",
		},
	}
}

// keepsConfigWhileUserConfigIsInvalid checks that a condition names ConfigMap, key and line, and
// that nothing is written until the text is fixed.
func (e *cinderEnv) keepsConfigWhileUserConfigIsInvalid() {
	e.putUserConfig(map[string]string{})
	e.within(prompt, func() error { return e.hasConf(rescan) })
	e.mustRejectAll(openshiftConfig+"/"+cinderUserConfig, invalidConfigs())
	e.sub("installer's", func(*testing.T) {
		before := e.driverState()
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": "[Global\n"})
		e.mustReject(before, "line 1", openshiftConfig+"/"+cloudProviderConfig, "key config")
		e.putConfigMap(openshiftConfig, cloudProviderConfig, map[string]string{"config": rescanText})
		e.mustRecover(before)
	})
}

// mustRejectAll checks the invalid contents of the driver's ConfigMap. configMap is its name in
// messages.
func (e *cinderEnv) mustRejectAll(configMap string, contents map[string]invalidConfig) {
	e.t.Helper()
	e.secrets = append(e.secrets, administratorSecret)
	before := e.awaitIdle()
	for name, bad := range contents {
		e.sub(name, func(*testing.T) {
			e.putUserConfig(map[string]string{bad.key: bad.text})
			e.mustReject(before, bad.message, configMap, "key "+bad.key)
			e.putUserConfig(map[string]string{})
			e.mustRecover(before)
		})
	}
}

// mustReject waits until the condition contains all texts, and checks that nothing else changes.
func (e *cinderEnv) mustReject(before driverState, texts ...string) {
	e.t.Helper()
	e.within(prompt, func() error { return e.reports(cinderDegraded, texts...) })
	e.checkDriverForSecrets()
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	e.expectNoWritesFor(time.Second)
	e.must(e.stillHas(before))
}

func (e *cinderEnv) mustRecover(before driverState) {
	e.t.Helper()
	e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
	e.awaitAvailable()
	e.must(e.stillHas(before))
}

// TestCinderUsesCAOfCredentialsBeforeCloudConfig checks cloud-conf, the path in cloud.conf, that
// operator and driver use the CA, and that a broken CA does not roll out.
func TestCinderUsesCAOfCredentialsBeforeCloudConfig(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Cloud: simulator.Config{TLS: true}, Before: func(e *env) {
		e.putConfigMap(operatorNamespace, cloudProviderConfig,
			map[string]string{"config": "[Global]\n", caKeyOfCloudProvider: "a CA for Manila"})
	}})
	e.parts(
		part{"IgnoresCloudConfigOfManila", e.ignoresCloudConfigOfManila},
		part{"DoesNotRollOutBrokenCA", e.mustNotRollOutBrokenCA},
		part{"UsesCA", e.mustUseCA},
	)
}

// ignoresCloudConfigOfManila checks that the copy of cloud-provider-config for Manila's operator
// does not matter, whether it exists or not.
func (e *cinderEnv) ignoresCloudConfigOfManila() {
	before := e.awaitIdle()
	e.delete(configMaps(), operatorNamespace, cloudProviderConfig)
	e.expectNoWritesFor(3 * time.Second)
	e.must(e.stillHas(before))
	e.restartOperator()
	e.triggerZoneProbe()
	e.awaitAvailable()
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	if got := before.conf[caKeyOfCloudProvider]; got != string(e.ca) {
		e.t.Errorf("the driver's CA is %q, want the cloud's", got)
	}
}

// putCloudCA writes the CA into the ConfigMap about the cloud.
func (e *cinderEnv) putCloudCA(ca string) {
	e.t.Helper()
	e.must(e.management.putConfigMap(e.ctx(), e.userConfigNamespace(), e.cloudConfigName(),
		map[string]string{caKeyOfCloudProvider: ca}))
}

// mustNotRollOutBrokenCA checks that a condition names Secret and key.
func (e *cinderEnv) mustNotRollOutBrokenCA() {
	e.t.Helper()
	before := e.awaitIdle()
	put := func(ca []byte) {
		e.patchBesideController(secrets(), cinderCredentials,
			fmt.Sprintf(`{"data":{"cacert":%q}}`, base64.StdEncoding.EncodeToString(ca)))
	}
	put([]byte("leaked"))
	e.within(prompt, func() error {
		return e.reports(cinderDegraded, "key cacert of Secret "+operatorNamespace+"/"+cinderCredentials)
	})
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	put(e.ca)
	e.within(prompt, func() error { return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "") })
	e.awaitAvailable()
}

// mustUseCA checks the places of the CA. At the end only the trusted CA bundle contains it.
func (e *cinderEnv) mustUseCA() {
	e.t.Helper()
	const caFile = "ca-file = " + caFromConfigMap + "\n"
	with := func(ca string) map[string]string {
		return map[string]string{
			confKey: generatedConf + caFile, topologyKey: "true",
			caKeyOfCloudProvider: ca,
		}
	}
	e.awaitAvailable()
	e.must(e.hasCloudConf(with(string(e.ca))))
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	e.awaitNoWrites() // the operator may still annotate the DaemonSets

	installers, another := string(e.ca)+"# the installer's\n", string(e.ca)+"# another\n"
	e.putCloudCA(installers)
	e.triggerZoneProbe()
	e.expectNoWritesFor(2 * time.Second)
	e.must(e.hasCloudConf(with(string(e.ca))))

	e.patchBesideController(secrets(), cinderCredentials, `{"data":{"cacert":null}}`)
	e.within(prompt, func() error { return e.hasCloudConf(with(installers)) })
	e.putCloudCA(another)
	e.within(prompt, func() error { return e.hasCloudConf(with(another)) })
	before := e.awaitIdle()
	e.putCloudCA("no certificate")
	e.within(prompt, func() error {
		return e.reports(cinderDegraded, "key "+caKeyOfCloudProvider+" of ConfigMap",
			"contains no PEM certificate")
	})
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	e.injectTrustedCAs(string(e.ca))
	e.putCloudCA("")
	e.eventually(soon, func() error {
		return e.hasCloudConf(map[string]string{confKey: generatedConf, topologyKey: "true"})
	})
	e.awaitAvailable()
	for name, w := range e.workloads() {
		want := "configMap cloud-conf optional ca-bundle.pem->ca-bundle.pem"
		if got := strings.Join(volumeSources(w.Pod, "cacert"), " "); got != want {
			e.t.Errorf("the CA of %s is from %q", name, got)
		}
	}
}
