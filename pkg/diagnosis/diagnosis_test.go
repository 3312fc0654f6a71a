package diagnosis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/quick"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/golden"
)

// Each file in testdata contains a ClusterCSIDriver of a driver with three workloads.
func TestFindingsOfDriversAreThoseOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	assert.Assert(t, err == nil && len(files) != 0, "found %d files, error %v", len(files), err)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			assert.NilError(t, err)
			var driver opv1.ClusterCSIDriver
			assert.NilError(t, yaml.UnmarshalStrict(text, &driver))
			got := printed(diagnosis.Driver(&driver, 3))
			golden.Match(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
		})
	}
}

func printed(findings []diagnosis.Finding) string {
	var out strings.Builder
	ready := diagnosis.Ready(findings)
	fmt.Fprintf(&out, "%s=%s %s: %s\n", ready.Type, ready.Status, ready.Reason, ready.Message)
	for _, f := range findings {
		since := "-"
		if !f.Since.IsZero() {
			since = f.Since.UTC().Format(time.RFC3339)
		}
		fmt.Fprintf(&out, "%s %s %s since %s #%s: %s\n",
			f.Severity, f.Type, f.Reason, since, f.Runbook, f.Message)
	}
	return out.String()
}

// The severities are those of True, False and Unknown.
func TestSeverityDependsOnTheSuffix(t *testing.T) {
	t.Parallel()
	const none = ""
	const problem, progress, warning = diagnosis.Problem, diagnosis.Progress, diagnosis.Warning
	for conditionType, want := range map[string][3]diagnosis.Severity{
		"OpenStackManilaDriverNodeServiceControllerAvailable":   {none, problem, problem},
		"OpenStackManilaDriverNodeServiceControllerProgressing": {progress, none, problem},
		"OpenStackManilaDriverNodeServiceControllerDegraded":    {problem, none, problem},
		"ManagementStateDegraded":                               {problem, none, problem},
		"ManilaCloudReachable":                                  {none, problem, problem},
		"CinderCredentialsAccepted":                             {none, problem, problem},
		"CinderCredentialsExpireSoon":                           {warning, none, warning},
		"ManilaControllerDisabled":                              {warning, warning, warning},
		"CinderUserConfigValid":                                 {none, warning, warning},
		"ManilaShareTypesServed":                                {none, warning, warning},
		"CinderSnapshotsServed":                                 {none, warning, warning},
		"CinderCSIAddonsActive":                                 {none, warning, warning},
		"Upgradeable":                                           {none, warning, warning},
	} {
		statuses := []opv1.ConditionStatus{opv1.ConditionTrue, opv1.ConditionFalse, opv1.ConditionUnknown}
		for i, status := range statuses {
			assert.Check(t, is.Equal(diagnosis.SeverityOf(conditionType, status), want[i]),
				"%s=%s has severity", conditionType, status)
		}
	}
}

// A driver is ready if and only if no condition reports a problem or a rollout, in any order.
func TestReadyIsTrueExactlyWithoutAProblem(t *testing.T) {
	t.Parallel()
	types := []string{
		"ADegraded", "AProgressing", "BAvailable", "CloudReachable", "CredentialsAccepted",
		"CredentialsExpireSoon", "SnapshotsServed", "ControllerDisabled", "Ready",
	}
	statuses := []opv1.ConditionStatus{opv1.ConditionTrue, opv1.ConditionFalse, opv1.ConditionUnknown}
	check := func(choices [9]uint8) bool {
		var driver, reversed opv1.ClusterCSIDriver
		serious := false
		for i, choice := range choices {
			status := statuses[int(choice)%len(statuses)]
			severity := diagnosis.SeverityOf(types[i], status)
			serious = serious || types[i] != "Ready" &&
				(severity == diagnosis.Problem || severity == diagnosis.Progress)
			c := opv1.OperatorCondition{Type: types[i], Status: status, Reason: "Why", Message: "m"}
			driver.Status.Conditions = append(driver.Status.Conditions, c)
			reversed.Status.Conditions = append([]opv1.OperatorCondition{c}, reversed.Status.Conditions...)
		}
		findings := diagnosis.Driver(&driver, 1)
		return cmp.Equal(findings, diagnosis.Driver(&reversed, 1)) &&
			serious == (diagnosis.Ready(findings).Status == opv1.ConditionFalse) &&
			serious != (diagnosis.Ready(findings).Status == opv1.ConditionTrue)
	}
	assert.Check(t, quick.Check(check, &quick.Config{MaxCount: 10_000}))
}

// Pods of existing clusters have these keys. With others, an upgrade would roll out the drivers.
func TestKeysOfInputsAreThoseOfExistingClusters(t *testing.T) {
	t.Parallel()
	const manila, cinder = "openshift-manila-csi-driver", "openshift-cluster-csi-drivers"
	for want, input := range map[string][3]string{
		"25ad040b026307a37efb0647bf68198c585b4": {manila, "secret", "csi-manila-secrets"},
		"8425b47aa5d86a488088f03bf6f3d374c7967": {manila, "configmap", "cloud-provider-config"},
		"4b51488ec5b742a098d092dfe49449df0986e": {cinder, "secret", "openstack-cloud-credentials"},
		"2a78a60e2cfb360d9fe72d1859d93b0fdd3bc": {cinder, "configmap", "cloud-conf"},
	} {
		got := diagnosis.InputAnnotation(input[0], input[1], input[2])
		assert.Check(t, got == "operator.openshift.io/dep-"+want, "the key of %v is %s", input, got)
	}
}
