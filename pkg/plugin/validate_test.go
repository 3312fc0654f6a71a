package plugin_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

func good() plugin.Driver {
	return plugin.Driver{
		Name: "demo.csi.openstack.org", ConditionPrefix: "OpenStackDemo", Assets: fstest.MapFS{},
	}
}

func TestValidateNamesEachInvalidFieldOfADriver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*plugin.Driver)
		want   []string // the start of each line
	}{
		"good":           {change: func(*plugin.Driver) {}},
		"good, with all": {change: func(d *plugin.Driver) { d.Namespace = "demo" }},
		"name with a space": {
			change: func(d *plugin.Driver) { d.Name = "a b" },
			want:   []string{`plugin.Driver "OpenStackDemo": field Name "a b" is not a name`},
		},
		"malformed namespace": {
			change: func(d *plugin.Driver) { d.Namespace = "A/B" },
			want:   []string{`plugin.Driver "OpenStackDemo": field Namespace "A/B" is not a name`},
		},
		"nothing": {change: func(d *plugin.Driver) { *d = plugin.Driver{} }, want: []string{
			`plugin.Driver "": field Name "" is not a name`,
			`plugin.Driver "": field ConditionPrefix must be a word`,
			`plugin.Driver "": field Assets is required`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := good()
			test.change(&driver)
			compareStarts(t, test.want, driver.Validate())
		})
	}
}

func compareStarts(t *testing.T, want []string, err error) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	for i := range min(len(want), len(got)) {
		got[i] = got[i][:min(len(got[i]), len(want[i]))]
	}
	assert.Check(t, is.DeepEqual(want, got))
}

func probe(service string) *cloudprobe.Probe {
	return &cloudprobe.Probe{Options: cloudprobe.Options{Service: service}}
}

func onDeployment(*opv1.OperatorSpec, *appsv1.Deployment) error   { return nil }
func onDaemonSet(_ *opv1.OperatorSpec, _ *appsv1.DaemonSet) error { return nil }

func TestValidateNamesEachInvalidComponent(t *testing.T) {
	t.Parallel()
	both := hook.Workload{Deployment: onDeployment, DaemonSet: onDaemonSet}
	for name, test := range map[string]struct {
		components plugin.Components
		want       []string
	}{
		"empty": {},
		"good": {components: plugin.Components{
			ControllerHooks: []hook.Workload{both}, NodeHooks: []hook.Workload{both}, Probe: probe("Demo"),
			StartWhenAvailable: true,
		}},
		"hooks of the other workload": {
			components: plugin.Components{
				ControllerHooks: []hook.Workload{both, {DaemonSet: onDaemonSet}},
				NodeHooks:       []hook.Workload{{Deployment: onDeployment}},
			},
			want: []string{
				"plugin.Components: field ControllerHooks[1] changes a DaemonSet but no Deployment",
				"plugin.Components: field NodeHooks[0] changes a Deployment but no DaemonSet",
			},
		},
		"nil": {
			components: plugin.Components{
				ControllerHooks: []hook.Workload{{
					Deployment: onDeployment, Informers: []factory.Informer{nil},
				}},
				Controllers: []factory.Controller{nil},
			},
			want: []string{
				"plugin.Components: field ControllerHooks[0] contains an informer that is nil",
				"plugin.Components: field Controllers[0] is nil",
			},
		},
		"probe without a name": {
			components: plugin.Components{Probe: probe("")},
			want:       []string{"plugin.Components: the Service of field Probe must be a word"},
		},
		"waits for no probe": {
			components: plugin.Components{StartWhenAvailable: true},
			want:       []string{"plugin.Components: field StartWhenAvailable requires field Probe"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compareStarts(t, test.want, test.components.Validate())
		})
	}
}
