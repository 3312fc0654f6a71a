package view

import (
	"bytes"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"
	operatorfake "github.com/openshift/client-go/operator/clientset/versioned/fake"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

func class(provisioner, name, shareType string) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner,
		Parameters: map[string]string{"type": shareType},
	}
}

// The control plane namespace contains workloads of other operators, too.
func TestReadDescribesHostedDrivers(t *testing.T) {
	t.Parallel()
	named := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 2}
	}
	source := Source{
		operators: []fixtures.Operator{
			{
				Driver: "a", ClusterCSIDriver: "a.example", Namespace: "clusters-g",
				OperandNamespace: "driver", Workloads: []string{"a-controller", "a-node"},
				ClassPerShareType: true,
			},
			{
				Driver: "b", ClusterCSIDriver: "b.example", Namespace: "clusters-g",
				OperandNamespace: "driver", Workloads: []string{"b-controller"},
				StorageClasses: []string{"b", "c"},
			},
		},
		isHosted: true,
		drivers: operatorfake.NewClientset(
			&opv1.ClusterCSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: "a.example"},
				Status: opv1.ClusterCSIDriverStatus{OperatorStatus: opv1.OperatorStatus{
					Conditions: []opv1.OperatorCondition{
						{Type: "NodeAvailable", Status: "True", Reason: "AsExpected", Message: "fine"},
						{Type: "ControllerAvailable", Status: "False", Reason: "Waiting", Message: "soon"},
						{Type: "CloudReachable", Status: "False", Reason: "Down", Message: "HTTP 503"},
						{Type: "SnapshotsServed", Status: "False", Reason: "None", Message: "no controller"},
					},
				}},
			},
			&opv1.ClusterCSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: "b.example"},
				Status: opv1.ClusterCSIDriverStatus{OperatorStatus: opv1.OperatorStatus{
					Conditions: []opv1.OperatorCondition{
						{Type: "ControllerDisabled", Status: "True", Reason: "NoB", Message: "not offered"},
					},
				}},
			},
		),
		cluster: fake.NewClientset(
			&appsv1.Deployment{ObjectMeta: named("driver", "a-controller")},
			&appsv1.DaemonSet{
				ObjectMeta: named("driver", "a-node"),
				Status: appsv1.DaemonSetStatus{
					DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 1,
					ObservedGeneration: 2,
				},
			},
			class("a.example", "a-gold", "gold"), class("b.example", "b", ""),
		),
		control: fake.NewClientset(
			&appsv1.Deployment{
				ObjectMeta: named("clusters-g", "a-controller"),
				Spec:       appsv1.DeploymentSpec{Replicas: ptr.To[int32](2)},
				Status:     appsv1.DeploymentStatus{ReadyReplicas: 2, UpdatedReplicas: 2},
			},
			&appsv1.Deployment{ObjectMeta: named("clusters-g", "the-operator")},
		),
	}
	got, err := source.Read(t.Context(), []string{"gold", "Fast"})
	assert.NilError(t, err)
	lines := []string{
		"a: condition CloudReachable=False Down: HTTP 503",
		"a: condition ControllerAvailable=False Waiting: soon",
		"a: condition NodeAvailable=True",
		"a: condition SnapshotsServed=False None: no controller",
		"a: Deployment a-controller 2/2 rolling out",
		"a: DaemonSet a-node 1/3",
		`a: StorageClass a-gold for share type "gold"`,
		"b: condition ControllerDisabled=True NoB: not offered",
		"b: StorageClass b",
	}
	assert.Check(t, is.DeepEqual(lines, got.Lines()), "lines")
	missing := []string{
		"a: ControllerAvailable, reason Waiting: soon",
		"a: CloudReachable, reason Down: HTTP 503",
		`a: no StorageClass for share type "Fast"`,
		"b: ControllerDisabled: not offered",
		"b: no StorageClass c",
	}
	assert.Check(t, is.DeepEqual(missing, got.Missing), "missing")
}

func TestDisplayPrintsOnlyChanges(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ before, after, want []string }{
		"nothing": {
			before: []string{"condition A=True", "DaemonSet node 5/5"},
			after:  []string{"condition A=True", "DaemonSet node 5/5"},
		},
		"another state, and an object that is gone": {
			before: []string{"DaemonSet node 5/5", `StorageClass b for share type "b"`},
			after:  []string{"DaemonSet node 4/5"},
			want:   []string{"DaemonSet node 4/5", `gone: StorageClass b for share type "b"`},
		},
		"objects of the same name of two drivers": {
			before: []string{"a: condition A=True", "a: Deployment c 2/2", "b: condition A=True"},
			after:  []string{"a: condition A=True", "b: condition A=False", "b: Deployment c 2/2"},
			want: []string{
				"b: condition A=False", "b: Deployment c 2/2", "gone: a: Deployment c 2/2",
			},
		},
		"a message that would control the terminal": {
			after: []string{"condition A=True: \x1b]0;title\a\u202e"},
			want:  []string{"condition A=True:  ]0;title"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			display := NewDisplay(&out)
			display.Show([]Cluster{{State: State{Addons: test.before}}})
			out.Reset()
			display.Show([]Cluster{{State: State{Addons: test.after}}})
			var got []string
			for line := range strings.Lines(out.String()) {
				_, text, _ := strings.Cut(strings.TrimSpace(line), "s ")
				got = append(got, text)
			}
			assert.Check(t, is.DeepEqual(test.want, got), "lines")
		})
	}
}
