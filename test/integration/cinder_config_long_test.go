//go:build integration && long

package integration

import (
	"errors"
	"fmt"
	"testing"
	"time"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestCinderWaitsForCloudAndConfig removes the obstacles to a start one by one, and then rejects an
// invalid configuration of the running driver.
func TestCinderWaitsForCloudAndConfig(t *testing.T) {
	t.Parallel()
	other := standardStorageClass("true")
	other.Name, other.Provisioner = "of-an-administrator", "example.com/other"
	e := newCinder(t, options{Idle: true, Args: shortGrace(), Before: func(e *env) {
		e.createClass(&other)
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

// keepsConfigWhileUserConfigIsInvalid checks that a condition names ConfigMap, key and line, and
// that nothing is written until the text is fixed.
func (e *cinderEnv) keepsConfigWhileUserConfigIsInvalid() {
	const secret = "leaked-by-the-administrator"
	e.secrets = append(e.secrets, secret)
	before := e.awaitIdle()
	e.putUserConfig(map[string]string{"config": "[BlockStorage]\n\n]" + secret + "\n"})
	e.eventually(prompt, func() error {
		return e.reports(cinderDegraded, "line 3", openshiftConfig+"/"+cinderUserConfig, "key config")
	})
	e.checkDriverForSecrets()
	e.must(e.hasOnlyDegraded(cinderDegraded))
	e.awaitNoWrites()
	e.must(e.stillHas(before))
	e.putUserConfig(map[string]string{"config": attachLimit})
	e.eventually(prompt, func() error {
		return e.hasCondition(cinderDegraded, opv1.ConditionFalse, "")
	})
	e.awaitAvailable()
	e.must(e.stillHas(before))
}
