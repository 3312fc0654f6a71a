package kubectl

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// loginOf returns the Secret that an operator generates from a clouds.yaml.
func loginOf(t *testing.T, driver string, clouds []byte) *corev1.Secret {
	t.Helper()
	login, err := openstack.Content{Data: map[string][]byte{cloudsKey: clouds}}.Login()
	assert.NilError(t, err)
	d, data := findDriver(driver), map[string][]byte{}
	for key, value := range d.loginOf(login) {
		data[key] = []byte(value)
	}
	return secret(d.namespace, d.loginSecret, data)
}

// refusing makes the operator of Manila refuse the login for several reasons, one after the other,
// and then do what accept does.
func (c *rotatingCluster) refusing(accept func(client.Client), reasons ...string) {
	polls, inner := 0, c.WithWatch
	c.WithWatch = onGet(inner, func(
		ctx context.Context, of client.WithWatch, key client.ObjectKey, object client.Object,
	) error {
		if err := of.Get(ctx, key, object); err != nil {
			return err
		}
		status, ok := object.(*opv1.ClusterCSIDriver)
		if !ok {
			return nil
		}
		const repetitions = 3
		now := polls / repetitions
		if polls++; now >= len(reasons) {
			accept(inner)
			return nil
		}
		status.Status.Conditions = []opv1.OperatorCondition{
			{Type: "ManilaCloudReachable", Status: opv1.ConditionFalse, Message: "no route"},
			{
				Type: "ManilaCredentialsAccepted", Status: opv1.ConditionFalse,
				Reason: "AuthenticationFailed", Message: reasons[now],
			},
			{Type: "OtherCredentialsAccepted", Status: opv1.ConditionTrue, Message: "fine"},
		}
		return nil
	})
}

// No workload lists the Secret of Manila's driver.
func TestRotationWaitsForTheLoginOfTheDriver(t *testing.T) {
	t.Parallel()
	const (
		refused       = "ManilaCredentialsAccepted=False AuthenticationFailed: HTTP 40"
		first, second = refused + "1\n", refused + "3\n"
		unmanaged     = "ClusterCSIDriver manila.csi.openstack.org is Unmanaged, so its operator " +
			"changes nothing. Set spec.managementState to Managed\n"
		tested = "Waiting until the operator has given the login in Secret " +
			"manila-cloud-credentials to the driver of Manila\n"
		copied = "Waiting until the cloud credential operator has copied the credentials to Secret " +
			"manila-cloud-credentials in openshift-manila-csi-driver\n"
		workload = "workload of a driver without a login"
		changed  = "Waiting until the operator has changed Deployment/late in " +
			"openshift-cluster-csi-drivers\n"
		nothing = "No driver has a login, so there is nothing to wait for\n"
	)
	fresh := bytes.Replace(clouds("b"), []byte("username: u"), []byte("username: v"), 1)
	credentials := func(namespace, name string) client.Object {
		return secret(namespace, name, map[string][]byte{cloudsKey: clouds("a")})
	}
	ofManila, login := credentials(manilaNamespace, manilaSecret), loginOf(t, "Manila", clouds("a"))
	for name, test := range map[string]struct {
		objects  []client.Object
		accepted bool
		code     int
		says     []string
	}{
		"accepted after refusals": {
			[]client.Object{ofManila, login}, true, exitOK, []string{tested, first, second},
		},
		"never accepted": {
			[]client.Object{ofManila, login}, false, exitDeadline, []string{tested, first, second},
		},
		"not copied": {
			[]client.Object{ofManila, login, credentials(rootNamespace, rootSecret)},
			false, exitDeadline,
			[]string{copied},
		},
		"driver without a login": {
			[]client.Object{ofManila}, false, exitOK, []string{first, nothing},
		},
		"driver without credentials": {
			[]client.Object{login, credentials(flavour.DefaultNamespace, cinderSecret)}, false, exitOK, nil,
		},
		"Unmanaged": {
			[]client.Object{ofManila, login},
			false, exitDeadline,
			[]string{tested, first, second, unmanaged},
		},
		workload: {
			[]client.Object{ofManila, credentials(flavour.DefaultNamespace, cinderSecret)},
			false, exitFailed,
			[]string{changed, first},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := &opv1.ClusterCSIDriver{
				ObjectMeta: metav1.ObjectMeta{Name: string(opv1.ManilaCSIDriver)},
			}
			driver.Spec.ManagementState = opv1.ManagementState(name)
			c := newRotatingCluster(t, append(test.objects, driver)...)
			c.rolls = map[string]bool{"early": true, "late": name != workload}
			accept, timeout := func(client.Client) {}, "--timeout=3s"
			if test.accepted {
				timeout = "--timeout=1m"
				accept = func(to client.Client) {
					assert.Check(t, to.Update(t.Context(), loginOf(t, "Manila", fresh)))
				}
			}
			c.refusing(accept, "HTTP 401", "HTTP 403")
			code, output := c.rotate(file(t, fresh), timeout)
			assert.Check(t, code == test.code && !strings.Contains(output, "Reachable"),
				"exit code %d, want %d:\n%s", code, test.code, output)
			for _, text := range []string{
				tested, copied, changed, first, second, unmanaged, nothing, "driver of Cinder",
			} {
				want := slices.Contains(test.says, text)
				if n := strings.Count(output, text); n > 1 || want != (n == 1) {
					t.Errorf("the output contains %q %d times, want it to: %t\n%s", text, n, want, output)
				}
			}
		})
	}
}
