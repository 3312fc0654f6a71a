package operator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// dryRunner has the pods of Cinder checked in a fake cluster, whose API server answers a dry run of
// the DaemonSet with an error.
type dryRunner struct {
	*testing.T
	fake *clustertest.Fake
	d    *driver
	// answer is what the API server answers, and asked counts the requests.
	answer error
	asked  int
}

func newDryRunner(t *testing.T, spec string) *dryRunner {
	t.Helper()
	r := &dryRunner{T: t}
	r.fake = clustertest.New(t, clustertest.Seed{
		Config: infrastructure(flavour.Standalone), Guest: []runtime.Object{
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "storage"}},
			choicesOf(spec),
		},
	})
	setSpec(t, r.fake.State, opv1.OperatorSpec{
		ManagementState: opv1.Managed,
		ObservedConfig:  runtime.RawExtension{Raw: []byte(observedConfig)},
	})
	p := cinderPlugin()
	p.Setup = setUpChoices
	r.d = assembledIn(t, r.fake, p)[0]
	controller, _, err := r.d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	assert.NilError(t, err)
	node, _, err := r.d.workload(bundle.NodeWorkload, flavour.Guest)
	assert.NilError(t, err)
	_, err = r.d.controllerHooks(controller.Name, func() *appsv1.Deployment { return nil })
	assert.NilError(t, err)
	_, err = r.d.nodeHooks(node.Name, func() *appsv1.DaemonSet { return nil })
	assert.NilError(t, err)
	for _, verb := range []string{"create", "update"} {
		react := func(a clienttesting.Action) (bool, runtime.Object, error) {
			r.asked++
			if a.GetResource().Resource == "daemonsets" {
				return true, nil, r.answer
			}
			return true, nil, nil
		}
		r.fake.Guest.PrependReactor(verb, "*", react)
	}
	r.fake.Guest.PrependReactor("create", "selfsubjectaccessreviews",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			review := &authorizationv1.SelfSubjectAccessReview{}
			review.Status.Allowed = true
			return true, review, nil
		})
	r.fake.Start(t)
	return r
}

// choicesOf returns choices for Cinder, from line 3 on.
func choicesOf(text string) *corev1.ConfigMap {
	return choices("apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\n" + text)
}

func (r *dryRunner) choose(text string) {
	r.Helper()
	clustertest.Put(r.T, r.fake.Guest, choicesOf(text))
	synctest.Wait()
}

// check returns the message of the condition after a check.
func (r *dryRunner) check() string {
	r.Helper()
	assert.NilError(r, r.d.checkPods(r.Context()))
	return *r.d.choices.Condition("Cinder", nil).Message
}

func invalid(causes ...*field.Error) error {
	kind := schema.GroupKind{Group: "apps", Kind: "DaemonSet"}
	return apierrors.NewInvalid(kind, "node", causes)
}

const (
	at       = "key operator.yaml of ConfigMap openshift-config/cinder-csi-config, line 3: pods.node"
	asBefore = "\nUntil this is corrected, the options of the pods stay as they were"
)

func TestRefusedOptionsOfPodsAreReportedWithTheirFields(t *testing.T) {
	t.Parallel()
	pod := field.NewPath("spec", "template", "spec")
	for spec, tt := range map[string]struct {
		answer error
		want   string
	}{
		"{tolerations: [{effect: Never}]}": {
			invalid(field.NotSupported(pod.Child("tolerations").Index(0).Child("effect"), "Never",
				[]string{"NoExecute"})),
			`tolerations[0].effect: Unsupported value: "Never": supported values: "NoExecute"`,
		},
		"{labels: {a: '!'}}": {
			invalid(field.Invalid(field.NewPath("spec", "template", "labels"), "!", "wrong")),
			`labels: Invalid value: "!": wrong`,
		},
		"{resources: {csi-driver: {requests: {cpu: 2}}}}": {
			invalid(field.Invalid(pod.Child("containers").Index(0).Child("resources", "requests"), "2",
				"too much")),
			`resources[csi-driver].requests: Invalid value: "2": too much`,
		},
		"{resources: {csi-driver: {requests: {cpu: 3}}}}": {
			invalid(field.Invalid(pod.Child("containers").Index(9).Child("resources"), "", "a webhook's")),
			`containers[9].resources: Invalid value: "": a webhook's`,
		},
		"{hostAliases: [{ip: 1.2.3.4}]}": {
			apierrors.NewForbidden(schema.GroupResource{Resource: "daemonsets"}, "node",
				errors.New("a policy")), "DaemonSet openshift-cluster-csi-drivers/" +
				`openstack-cinder-csi-driver-node: daemonsets "node" is forbidden: a policy`,
		},
		"{resources: {csi: {}}}": {nil, "resources[csi]: there is no such container: use csi-driver, " +
			"csi-liveness-probe, csi-node-driver-registrar"},
		"{priorityClassName: other}": {nil, `priorityClassName: Not found: "other"`},
		"{labels: {app: x}}": {
			nil, "labels[app]: Forbidden: use another key: the operator sets this one",
		},
	} {
		r := newDryRunner(t, "pods: {node: "+spec+"}")
		r.answer = tt.answer
		separator := "."
		if apierrors.IsForbidden(tt.answer) {
			separator = ": "
		}
		want := at + separator + tt.want + asBefore
		assert.Check(t, is.Equal(r.check(), want), spec)
		_, err := r.d.checkedChoices()
		assert.Check(t, is.ErrorContains(err, "the workload stays unchanged"))
	}
}

// The pods keep the last accepted options. A PriorityClass that is missing may be created later.
func TestOptionsOfPodsAreCheckedWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const good = "pods: {node: {priorityClassName: storage}, controller: {replicas: 3}}"
		r := newDryRunner(t, good)
		valid := r.check()
		expect := func(when string, message string, asked int) {
			t.Helper()
			assert.Check(t, is.Equal(r.check(), message), when)
			assert.Check(t, is.Equal(r.asked, asked), when)
			config, err := r.d.checkedChoices()
			assert.Check(t, err == nil && config.Pods.Node.PriorityClassName == "storage", when)
		}
		expect("nothing has changed", valid, 2)
		r.choose("pods: {node: {priorityClassName: other}, controller: {replicas: 3}}")
		refused := at + `.priorityClassName: Not found: "other"` + asBefore
		expect("another class", refused, 3)
		expect("nothing has changed", refused, 3)
		assert.Check(t, r.d.pods.refuses())
		<-time.After(unsettledResync)
		expect("after a minute", refused, 4)
		r.choose(good)
		expect("corrected", valid, 4)
		r.choose("defaultClass: gold")
		assert.Check(t, is.Equal(r.check(), valid))
		config, err := r.d.checkedChoices()
		assert.Check(t, err == nil && config.Pods.Node.PriorityClassName == "" && r.asked == 4)
		r.choose(good)
		r.answer = apierrors.NewServiceUnavailable("later")
		assert.Check(t, is.ErrorContains(r.d.checkPods(t.Context()), "later"))
	})
}
