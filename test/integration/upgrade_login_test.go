//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// formerInput is an object that a workload listed as a rollout input in an earlier release.
type formerInput struct{ workload, kind, name string }

func (e *env) formerInputs() []formerInput {
	if !e.subject.isManila() {
		return []formerInput{{cinderNode, "secret", cinderCredentials}}
	}
	return []formerInput{
		{controllerName, "secret", credentialsSecret},
		{controllerName, "configmap", e.cloudConfigName()},
		{nodeName, "secret", credentialsSecret},
		{nodeName, "configmap", cloudProviderConfig},
	}
}

// goBackToFormerLogin stops the operator, and makes of its driver what the earlier releases of this
// operator deployed: the Deployment of Cinder mounts the credentials Secret.
func (e *env) goBackToFormerLogin() {
	e.t.Helper()
	e.awaitIdle()
	e.stopOperator()
	for _, f := range e.formerInputs() {
		side, in := e.guest, collection{resource("apps", "daemonsets"), e.subject.OperandNamespace}
		if f.workload == e.subject.Workloads[0] {
			side = e.management
			in = collection{resource("apps", "deployments"), e.subject.controllerNamespace}
		}
		w, err := e.workload(f.workload)
		e.must(err)
		key := diagnosis.InputAnnotation(in.namespace, f.kind, f.name)
		inputs := fmt.Sprintf("%s,%s/%s=former", w.Inputs, f.kind, f.name)
		e.must(side.patch(e.ctx(), in, f.workload, fmt.Sprintf(`{
			"metadata":{"annotations":{%[1]q:"former",%[2]q:%[3]q}},
			"spec":{"template":{"metadata":{"annotations":{%[1]q:"former"}}}}}`,
			key, inputsAnnotation, inputs)))
	}
	if !e.subject.isManila() {
		_, err := e.management.kube.AppsV1().Deployments(e.subject.controllerNamespace).Patch(e.ctx(),
			cinderController, types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"volumes":[
				{"name":"secret-cinderplugin","secret":{"secretName":"`+cinderCredentials+`",
				"items":[{"key":"clouds.yaml","path":"clouds.yaml"}]}}]}}}}`), metav1.PatchOptions{})
		e.must(err)
		e.must(e.management.kube.CoreV1().Secrets(e.subject.controllerNamespace).
			Delete(e.ctx(), cinderLogin, metav1.DeleteOptions{}))
	}
	e.eventually(installed, (&upgrade{env: e}).isRolledOut)
}

// updatesFormerLogin checks an upgrade from earlier releases of this operator: no pod restarts
// because of useless credentials or an outage, nor a pod on a node at all.
func (e *env) updatesFormerLogin() {
	e.goBackToFormerLogin()
	templates := (&upgrade{env: e}).templates()
	check := func() error { return checkEqual(templates, (&upgrade{env: e}).templates()) }
	all := e.uselessCredentials()
	e.useCredentials(all[0].data)
	e.startOperator()
	if !e.subject.isManila() { // its workloads wait for useful credentials, but not for ever
		e.eventually(time.Minute, func() error {
			if !strings.Contains(e.log()[e.operator.logged:], "Timed out waiting for prerequisites") {
				return fmt.Errorf("the controllers of the workloads wait")
			}
			return nil
		})
	}
	unchanged := func() {
		e.t.Helper()
		e.awaitNoWrites()
		assert.Check(e.t, check(), "the pods change")
	}
	for _, u := range all {
		e.sub(u.name, func(*testing.T) {
			e.useCredentials(u.data)
			e.eventually(soon, func() error {
				return e.hasTestOf(opv1.ConditionFalse, u.reason, u.message, keepsAll)
			})
			unchanged()
		})
	}
	recovered := e.fault(statusFault(simulator.Identity, http.StatusServiceUnavailable))
	e.setClouds(append(e.cloud.CloudsYAML(simulator.Clouds{}), "# of this release\n"...))
	e.eventually(soon, func() error {
		return e.hasTestOf(opv1.ConditionFalse, unreachableReason, "HTTP 503", keepsAll)
	})
	unchanged()
	recovered()
	e.eventually(soon, e.credentialsAccepted)
	for _, name := range e.rolledOutByLogin() {
		templates[name]++
	}
	e.eventually(soon, check)
	e.awaitIdle()
	e.must(check())
}
