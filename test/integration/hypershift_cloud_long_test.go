//go:build integration && long

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestHyperShiftManilaFollowsCAAndCredentials(t *testing.T) {
	t.Parallel()
	e := newHosted(t, manila(), options{Cloud: simulator.Config{TLS: true}, CAInConfig: true})
	e.parts(
		part{"UsesCAOfConfigMap", e.usesCAOfConfigMap},
		part{"FollowsDeletedCopies", e.followsDeletedCopies},
	)
}

// usesCAOfConfigMap checks that the operator and its driver use a CA that only the control plane's
// ConfigMap contains, and keep it while the ConfigMap has none.
func (e *hostedEnv) usesCAOfConfigMap() {
	withCA := e.passwordTranslation()
	withCA["os-certAuthority"] = string(e.ca)
	e.awaitAvailable()
	e.must(e.hasCondition(reachable, opv1.ConditionTrue, ""))
	e.eventually(prompt, func() error { return e.hasTranslation(withCA) })
	e.eventually(prompt, e.hasCopyOfCA)
	e.must(e.management.putConfigMap(e.ctx(), hostedNamespace, hostedCloudCA,
		map[string]string{"secret": "of the owner"}))
	e.eventually(prompt, e.hasNoCopyOfCA)
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, unreachableReason, "unknown authority", keepsLogin)
	})
	e.must(e.hasTranslation(withCA))
	e.setHostedCA(e.ca)
	e.awaitAvailable()
	e.eventually(soon, e.credentialsAccepted)
}

// followsDeletedCopies checks that copies of the credentials in the guest cluster change nothing,
// and rotates credentials as docs/credential-rotation.md describes it for HyperShift.
func (e *env) followsDeletedCopies() {
	before := e.awaitIdle()
	name := e.driverSecret()
	inGuest := e.guest.kube.CoreV1().Secrets(e.subject.OperandNamespace)
	e.putSecret(e.subject.OperandNamespace, name, map[string][]byte{"clouds.yaml": []byte("[")})
	e.expectNoWritesFor(time.Second)
	e.restartOperator()
	e.awaitPolls(1)
	e.awaitNoWrites()
	e.must(inGuest.Delete(e.ctx(), name, metav1.DeleteOptions{}))
	e.expectNoWritesFor(time.Second)
	e.must(e.stillHas(before))

	source := e.management.kube.CoreV1().Secrets(hostedNamespace)
	copied, err := source.Get(e.ctx(), name, metav1.GetOptions{})
	e.must(err)
	data := copied.Data
	data["clouds.yaml"] = e.cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential})
	e.createCopies(data)
	e.expectNoWritesFor(time.Second)
	e.must(source.Delete(e.ctx(), name, metav1.DeleteOptions{}))
	missing := "Secret " + hostedNamespace + "/" + name + " of the management cluster is missing"
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, "InvalidCredentials", missing, keepsLogin)
	})
	e.must(e.stillHas(before))
	e.createCopies(data)
	e.mustRollOutOnly(before, e.rolledOutByLogin()...)
	e.must(e.credentialsAccepted())
}

// createCopies plays HyperShift, which writes clouds.yaml into the copies of the credentials only
// when it creates them.
func (e *env) createCopies(data map[string][]byte) {
	e.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: e.subject.Credentials[0].Name}, Data: data,
	}
	for _, at := range e.driverNamespaces() {
		_, err := at.cluster.kube.CoreV1().Secrets(at.namespace).
			Create(e.ctx(), secret, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			e.must(err)
		}
	}
}

// TestHyperShiftCinderFollowsCAAndConfig checks that the owners of the control plane configure the
// driver, and that the guest cluster's administrator cannot.
func TestHyperShiftCinderFollowsCAAndConfig(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{
		Flavour: flavour.HyperShift, Cloud: simulator.Config{TLS: true}, CAInConfig: true,
		Before: func(e *env) {
			guests := map[string]string{
				"config":    "[BlockStorage]\nrescan-on-resize = true\n",
				topologyKey: "false",
			}
			e.putConfigMap(openshiftConfig, cinderUserConfig, guests)
			e.putConfigMap(openshiftConfig, cloudProviderConfig, guests)
			e.setCloudConfigKey("config")
		},
	})
	e.parts(
		part{"UsesCAOfConfigMap", e.usesCAOfConfigMap},
		part{"IgnoresConfigOfGuest", e.ignoresConfigOfGuest},
		part{"FollowsDeletedCopies", e.followsDeletedCopies},
	)
}

func (e *cinderEnv) usesCAOfConfigMap() {
	e.awaitAvailable()
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	conf, err := e.cloudConf()
	e.must(err)
	e.must(checkEqual(string(e.ca), conf[caKeyOfCloudProvider]))
}

func (e *cinderEnv) ignoresConfigOfGuest() {
	e.putUserConfig(map[string]string{"config": attachLimit})
	e.eventually(prompt, func() error {
		conf, err := e.cloudConf()
		if err == nil && !strings.HasSuffix(conf[confKey], attachLimit) {
			err = fmt.Errorf("%s has no limit: %s", confKey, conf[confKey])
		}
		return err
	})
	e.awaitAvailable()
	e.awaitNoWrites()
	e.putConfigMap(openshiftConfig, cinderUserConfig, map[string]string{"config": "[BlockStorage\n"})
	e.setCloudConfigKey("another")
	e.expectNoWritesFor(time.Second)
	e.must(e.available())
	e.must(e.hasTopology("true"))
}
