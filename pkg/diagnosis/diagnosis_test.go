package diagnosis_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/quick"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			got := diagnosis.SeverityOf(conditionType, status)
			assert.Check(t, is.Equal(got, want[i]), "%s=%s", conditionType, status)
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

// Neither the message of a condition that is True, nor an init container that has ended, is why.
func TestPodTroubleIsWhyAPodIsNotReady(t *testing.T) {
	t.Parallel()
	const placed, unready = "{type: PodScheduled, status: 'True', message: x}",
		"{type: Ready, status: 'False'"
	for status, want := range map[string]string{
		"phase: Succeeded": "",
		"conditions: [{type: Ready, status: 'True'}]": "",
		"phase: Failed": "Problem PodFailed has failed (Failed): there is no message",
		"{phase: Failed, reason: Evicted, message: m}": "Problem PodFailed has failed (Evicted): m",
		"conditions: [{type: PodScheduled, status: 'False', message: m}]": "Problem Unschedulable " +
			"cannot be scheduled: m",
		"{conditions: [" + placed + ", " + unready + "}], containerStatuses: [{name: a}]}": "Problem " +
			"NotReady is not ready",
		"{conditions: [" + unready + ", message: m}], containerStatuses: [{name: a}]}": "Problem " +
			"NotReady is not ready: m",
		"phase: Pending": "Progress Pending starts",
		"containerStatuses: [{state: {waiting: {reason: ContainerCreating}}}]": "Progress " +
			"ContainerCreating starts (ContainerCreating)",
		"{initContainerStatuses: [{state: {waiting: {reason: PodInitializing}}}], " +
			"containerStatuses: [{name: a}]}": "Progress PodInitializing starts (PodInitializing)",
		"containerStatuses: [{state: {waiting: {reason: PodInitializing}}}, {name: a, state: " +
			"{waiting: {reason: ImagePullBackOff, message: 'x ErrImagePull: m'}}}]": "Problem " +
			"ImagePullBackOff container a is in ImagePullBackOff: m",
		"containerStatuses: [{name: a, state: {waiting: {reason: RunContainerError}}}]": "Problem " +
			"CreateContainerError container a is in RunContainerError: there is no message",
		"initContainerStatuses: [{name: a, state: {terminated: {exitCode: 137, reason: OOMKilled, " +
			"message: m}}}]": "Problem CrashLoopBackOff container a is in CrashLoopBackOff (exit 137, out " +
			"of memory): m",
		"{initContainerStatuses: [{ready: true, state: {terminated: {exitCode: 0}}}], " +
			"containerStatuses: [{name: a}]}": "Problem NotReady is not ready",
	} {
		pod := &corev1.Pod{}
		assert.NilError(t, yaml.UnmarshalStrict([]byte(status), &pod.Status), status)
		got := fmt.Sprintln(diagnosis.PodTrouble(pod))
		assert.Check(t, is.Equal(strings.TrimSpace(got), want), status)
		pod.DeletionTimestamp = &metav1.Time{}
		got = fmt.Sprintln(diagnosis.PodTrouble(pod))
		assert.Check(t, is.Equal(strings.TrimSpace(got), ""), "deleted: %s", status)
	}
}

func TestShortIsOneLineWithoutCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"two\n lines":                      "two lines",
		`Password: "a b" for me`:           "Password: *** for me",
		"Authorization: Bearer abc.def":    "Authorization: Bearer ***",
		"pull https://me:pw@registry/x":    "pull https://***@registry/x",
		`err="{\"password\":\"hunter2\"}"`: `err="{\"password\":***`,
		"Authorization: Basic abc=":        "Authorization: Basic ***",
		"run --os-password hunter2 now":    "run --os-password *** now",
		`{"X-Subject-Token": ["gAAAA"]}`:   `{"X-Subject-Token": [***]}`,
		`{"password": "a\"b c", "x": 1}`:   `{"password": ***, "x": 1}`,
		"passcode=123 ok":                  "passcode=*** ok",
		"https://user:p@ss/w@host/path":    "https://***@host/path",
		`token: "cut off`:                  "token: ***",
		strings.Repeat("ä", 300):           strings.Repeat("ä", 255) + "…",
	} {
		assert.Check(t, is.Equal(diagnosis.Short(text), want), "%q becomes", text)
	}
}

func TestEndsCutsBetweenClausesAndNotWithinNamesAndQuotations(t *testing.T) {
	t.Parallel()
	const text = `mounting share-0123456789 failed: node "worker 1" (rack 7) says: no route to host ` +
		`for 10.0.0.5:/volumes/a-long-path, which "is quoted, and long: as long as half of the ` +
		`text" at last`
	for most, want := range map[int]string{
		165: `mounting share-0123456789 failed: node "worker 1" (rack 7) says: … at last`,
		120: `mounting share-0123456789 failed: node "worker 1" (rack 7) says: … as long as half of ` +
			`the text at last`,
		60: "mounting share-0123456789 failed: … of the text at last",
		12: "mounting sh…",
	} {
		got := diagnosis.Ends(text, most)
		assert.Check(t, is.Equal(got, want), most)
		assert.Check(t, utf8.RuneCountInString(got) <= most)
	}
}

func TestSnapshotIsIgnoredIfNoControllerHasChangedIt(t *testing.T) {
	t.Parallel()
	created := time.Unix(1000, 0)
	status := []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "x", Subresource: "status"}}
	for name, test := range map[string]struct {
		age        time.Duration
		finalizers []string
		fields     []metav1.ManagedFieldsEntry
		want       bool
	}{
		"new":        {age: diagnosis.SnapshotGrace},
		"old":        {age: diagnosis.SnapshotGrace + 1, fields: status[:1], want: true},
		"of backups": {age: time.Hour, finalizers: []string{"example.com/backup"}, want: true},
		"protected": {
			age:        time.Hour,
			finalizers: []string{"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"},
		},
		"with an unknown class": {age: time.Hour, fields: status},
	} {
		snapshot := &metav1.ObjectMeta{
			CreationTimestamp: metav1.NewTime(created), Finalizers: test.finalizers,
			ManagedFields: test.fields,
		}
		assert.Check(t, is.Equal(diagnosis.IsIgnored(snapshot, created.Add(test.age)), test.want), name)
	}
}

func TestWorkloadIsRolledOutWithTheNewestPodsOnly(t *testing.T) {
	t.Parallel()
	type status = appsv1.DeploymentStatus
	of := func(s status) metav1.Object { return &appsv1.Deployment{Status: s} }
	ofNodes := func(s appsv1.DaemonSetStatus) metav1.Object { return &appsv1.DaemonSet{Status: s} }
	unseen := of(status{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1})
	unseen.SetGeneration(1)
	for name, test := range map[string]struct {
		object metav1.Object
		want   bool
	}{
		"yes":           {of(status{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}), true},
		"not seen":      {unseen, false},
		"earlier pods":  {of(status{Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 2}), false},
		"not available": {of(status{Replicas: 1, UpdatedReplicas: 1}), false},
		"nodes": {ofNodes(appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberAvailable: 2,
		}), true},
		"a node": {ofNodes(appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1, NumberAvailable: 2,
		}), false},
	} {
		assert.Check(t, is.Equal(diagnosis.NewWorkload(test.object, nil).RolledOut, test.want), name)
	}
}

// A tool with kstatus waits exactly while Ready is False, and ends with an error if it is stalled.
func TestSummaryHasOneReasonToWait(t *testing.T) {
	t.Parallel()
	check := func(choices [3]uint8, stalled, completed bool) bool {
		var findings []diagnosis.Finding
		waits := !completed
		for i, reason := range []string{"CloudUnreachable", "Deploying", "PartlyServed"} {
			severities := []diagnosis.Severity{diagnosis.Problem, diagnosis.Progress, diagnosis.Warning}
			if n := int(choices[i]) % 4; n < 3 {
				findings = append(findings, diagnosis.Finding{Severity: severities[n], Reason: reason})
				waits = waits || n < 2 && reason != "CloudUnreachable"
			}
		}
		slices.SortStableFunc(findings, func(a, b diagnosis.Finding) int {
			return a.Severity.Compare(b.Severity)
		})
		var fault *diagnosis.Finding
		want := "Ready=True"
		switch {
		case stalled:
			fault, want = &diagnosis.Finding{Reason: "Invalid"}, "Ready=False Stalled=True"
		case waits:
			want = "Ready=False Reconciling=True"
		}
		var got []string
		for _, c := range diagnosis.Summary(findings, fault, completed) {
			got = append(got, c.Type+"="+string(c.Status))
		}
		return strings.Join(got, " ") == want
	}
	assert.Check(t, quick.Check(check, &quick.Config{MaxCount: 2000}))
}
