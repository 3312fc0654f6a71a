package view

import (
	"cmp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/golden"
)

func now() time.Time { return time.Date(2026, 1, 2, 14, 2, 31, 0, time.UTC) }

// conditions returns conditions from lines of type, status, reason, age and message. The conditions
// of a good driver replace those that are missing.
func conditions(prefix string, lines ...string) []opv1.OperatorCondition {
	var all []opv1.OperatorCondition
	given := strings.Join(lines, "\n")
	for _, good := range []string{
		"DriverControllerServiceControllerAvailable True", "DriverNodeServiceControllerAvailable True",
		"DriverControllerServiceControllerProgressing False", "CloudReachable True",
		"DriverNodeServiceControllerProgressing False", "CredentialsAccepted True",
		"DriverControllerServiceControllerDegraded False", "SnapshotsServed True",
		"ManagementStateDegraded False", "CSIConfigObserverControllerDegraded False",
	} {
		name, _, _ := strings.Cut(good, " ")
		if !strings.Contains(given, prefix+name) {
			lines = append(lines, prefix+good+" AsExpected 3m")
		}
	}
	for _, line := range lines {
		field := strings.SplitN(line, " ", 5)
		age, err := time.ParseDuration(field[3])
		if err != nil {
			continue
		}
		all = append(all, opv1.OperatorCondition{
			Type: field[0], Status: opv1.ConditionStatus(field[1]), Reason: field[2],
			Message:            strings.Join(field[4:], " "),
			LastTransitionTime: metav1.NewTime(now().Add(-age)),
		})
	}
	return all
}

// state returns the state of Manila and Cinder with these conditions.
func state(manila, cinder []opv1.OperatorCondition) State {
	var s State
	for i, o := range operators() {
		driver := &opv1.ClusterCSIDriver{}
		driver.Status.Conditions = [][]opv1.OperatorCondition{manila, cinder}[i]
		s.Drivers = append(s.Drivers, newDriver(o, driver))
	}
	s.Drivers[0].Workloads = []Workload{
		{"Deployment", "openstack-manila-csi-controllerplugin", 2, 2, true},
		{"DaemonSet", "openstack-manila-csi-nodeplugin", 5, 5, true},
		{"DaemonSet", "csi-nodeplugin-nfsplugin", 5, 5, true},
	}
	s.Drivers[1].Workloads = []Workload{
		{"Deployment", "openstack-cinder-csi-driver-controller", 2, 2, true},
		{"DaemonSet", "openstack-cinder-csi-driver-node", 5, 5, true},
	}
	s.Drivers[0].Classes = []Class{
		{Name: "csi-manila-default"}, {Name: "csi-manila-fast"}, {Name: "csi-manila-gold", IsGone: true},
	}
	s.Drivers[1].Classes = []Class{{Name: "standard-csi", IsDefault: true}}
	return s
}

func operators() []fixtures.Operator {
	return []fixtures.Operator{
		{
			Driver: "manila", Name: "manila-csi-driver-operator", Program: "manila-operator",
			Workloads: []string{"c", "n"}, ClassPerShareType: true,
		},
		{
			Driver: "cinder", Name: "openstack-cinder-csi-driver-operator", Program: "cinder-operator",
			Workloads: []string{"c", "n"},
		},
	}
}

func event(age time.Duration, driver, text string) Event {
	return Event{now().Add(-age), driver, text}
}

const (
	manilaPrefix = "OpenStackManila"
	cinderPrefix = "OpenStackCinder"
	noCloud      = cinderPrefix + "CloudReachable False CloudUnreachable 80s OpenStack's volume " +
		"service at http://127.0.0.1:41233/volume cannot be used: HTTP 503"
	rollingOut = manilaPrefix + "DriverNodeServiceControllerProgressing True Deploying 8s 3 of 5 " +
		"pods are up to date"
)

// outage is a state with each kind of finding, and with text that would harm a terminal.
func outage() Cluster {
	s := state(
		conditions(manilaPrefix, rollingOut, manilaPrefix+"SnapshotsServed False NoSnapshotController "+
			"2h \x1b[2J\x1b]0;title\a"+
			strings.Repeat("No snapshot controller processes VolumeSnapshots. ", 6)),
		conditions(cinderPrefix, noCloud))
	return Cluster{State: s, Events: []Event{
		event(80*time.Second, "cinder", "CinderCloudUnreachable\nHTTP 503 \u202e"),
		event(3*time.Minute, "cinder", "DeploymentCreated"),
	}}
}

func rollout() Cluster {
	s := state(conditions(manilaPrefix, rollingOut), conditions(cinderPrefix))
	s.Drivers[0].Workloads[1].Ready, s.Drivers[0].Workloads[1].IsCurrent = 3, false
	return Cluster{State: s, Events: []Event{
		event(8*time.Second, "manila", "RolloutInputChanged Secret manila-cloud-credentials has "+
			"changed, so DaemonSet openstack-manila-csi-nodeplugin is rolled out"),
	}}
}

func ready() Cluster {
	return Cluster{
		State:  state(conditions(manilaPrefix), conditions(cinderPrefix)),
		Events: []Event{event(time.Minute, "manila", "StorageClassCreated csi-manila-default")},
	}
}

func TestFramesFitATerminal(t *testing.T) {
	t.Parallel()
	guest := func(name string, c Cluster) Cluster {
		c.Guest = name
		return c
	}
	three := []Cluster{
		guest("guest-1", ready()), guest("guest-2", outage()), guest("guest-3", rollout()),
	}
	for name, test := range map[string]struct {
		clusters      []Cluster
		keys          string
		width, height int // 80 and 24 by default
	}{
		"ready":      {clusters: []Cluster{ready()}},
		"outage":     {clusters: []Cluster{outage()}},
		"rollout":    {clusters: []Cluster{rollout()}},
		"guests":     {clusters: three},
		"conditions": {clusters: []Cluster{outage()}, keys: "c"},
		"logs":       {clusters: []Cluster{ready()}, keys: "l"},
		"small":      {clusters: []Cluster{outage()}, width: 60, height: 16},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newModel(t, test.clusters)
			for _, key := range test.keys {
				m.press(string(key))
			}
			width, height := cmp.Or(test.width, 80), cmp.Or(test.height, 24)
			m.Update(tea.WindowSizeMsg{Width: width, Height: height})
			frame := m.View().Content
			mustFit(t, frame, width, height)
			golden.Match(t, "testdata/"+name+".txt", ansi.Strip(frame)+"\n")
		})
	}
}

// A small terminal shows less. No size, and no key, breaks the view.
func TestFramesFitEverySize(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"", pageConditions, pageEvents, pageLogs} {
		m := newModel(t, []Cluster{outage(), ready()})
		m.press(page)
		for size := range 500 {
			width, height := size%90, size%31
			m.Update(tea.WindowSizeMsg{Width: width, Height: height})
			m.press([]string{"down", "pgdown", "up", "pgup", "g"}[size%5])
			mustFit(t, m.View().Content, width, height)
		}
	}
}

func mustFit(t *testing.T, frame string, width, height int) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	assert.Check(t, len(lines) <= max(1, height),
		"the frame has %d lines, want %d", len(lines), height)
	for _, line := range lines {
		assert.Check(t, ansi.StringWidth(line) <= width, "wider than %d: %q", width, line)
	}
}

func newModel(t *testing.T, clusters []Cluster) *model {
	t.Helper()
	m := &model{
		about: About{
			Flavour: "standalone", Operators: operators(), Dir: ".devcluster", Command: "bin/devcluster",
		},
		start: now().Add(-252 * time.Second),
		logs:  []string{"I0102 14:02:30 one\nI0102 14:02:31 \x1b[31mtwo", ""},
	}
	if len(clusters) > 1 {
		m.about.Flavour = "hypershift"
	}
	for _, message := range []tea.Msg{
		now(), clusters,
		event(5*time.Second, "devcluster", "manila-operator failed; starting it again in 1s\n"),
	} {
		m.Update(message)
	}
	return m
}
