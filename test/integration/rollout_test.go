//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const inputsAnnotation = "operator.openshift.io/rollout-inputs"

func cinderInputs() map[string]input {
	both := []string{cinderController, cinderNode}
	return map[string]input{
		"credentials": {
			func(e *env, content string) {
				login := simulator.Clouds{} // a comment is no other one
				if content == "another content" {
					login.Auth = simulator.ApplicationCredential
				}
				e.setClouds(append(e.cloud.CloudsYAML(login), "# "+content+"\n"...))
			}, both[:1], "secret/" + cinderCredentials,
		},
		"configuration": {
			func(e *env, content string) {
				e.putUserConfig(map[string]string{"config": "[BlockStorage]\nof-a-later-release = \"" +
					content + "\"\n"})
			}, both, "configmap/" + cloudConf,
		},
		"trusted CA bundle": {
			func(e *env, content string) {
				e.patch(configMaps(), operatorNamespace, cinderTrustedCA,
					fmt.Sprintf(`{"data":{%q:%q}}`, trustedCAKey, content))
			}, both, "configmap/" + cinderTrustedCA,
		},
		"metrics certificate": {
			func(e *env, content string) {
				e.putSecret(operatorNamespace, cinderCertificate,
					map[string][]byte{"tls.crt": []byte(content), "tls.key": []byte("key")})
			}, both, "secret/" + cinderCertificate,
		},
	}
}

// listedInputs returns the rollout inputs in a workload's annotation. It returns an error if the
// pods have the annotation, which would make them roll out.
func (e *env) listedInputs(name string) (map[string]string, error) {
	w, err := e.workload(name)
	if err != nil {
		return nil, err
	}
	if w.PodInputs != "" {
		return nil, fmt.Errorf("the pods of %s have the annotation: %s", name, w.PodInputs)
	}
	listed := map[string]string{}
	for input := range strings.SplitSeq(w.Inputs, ",") {
		object, hash, ok := strings.Cut(input, "=")
		if !ok || hash == "" || len(hash) > 20 {
			return nil, fmt.Errorf("annotation of %s: %q is not kind/name=hash with a short hash", name,
				input)
		}
		listed[object] = hash
	}
	return listed, nil
}

// mustExplainRollout changes the input and waits for exactly one rollout of exactly its workloads.
// An event and the annotation must explain it.
func (e *env) mustExplainRollout(in input, content string) {
	e.t.Helper()
	before, listed, input := e.workloads(), e.allListedInputs(), in.listed
	in.put(e, content)
	e.awaitChangedTemplates(before, in.rolls)
	e.awaitAvailable()
	e.eventually(soon, func() error { return e.hasNewPods(in.rolls) })
	e.awaitNoWrites()
	for name, after := range e.workloads() {
		now, err := e.listedInputs(name)
		e.must(err)
		if !slices.Contains(in.rolls, name) {
			if diff := cmp.Diff(before[name], after) + cmp.Diff(listed[name], now); diff != "" {
				e.t.Errorf("%s changed, although it does not read the input:\n%s", name, diff)
			}
			continue
		}
		assert.Check(e.t, rolledOnce(before[name], after))
		assert.Check(e.t, now[input] != listed[name][input],
			"%s lists the old hash of %s: %v", name, input, now)
		delete(now, input)
		others := maps.Clone(listed[name])
		delete(others, input)
		assert.Check(e.t, is.DeepEqual(others, now), "%s lists other inputs as changed", name)
		e.eventually(soon, func() error { return e.hasEvent("RolloutInputChanged", name, input) })
	}
}

func (e *env) allListedInputs() map[string]map[string]string {
	e.t.Helper()
	all := map[string]map[string]string{}
	for _, name := range e.subject.Workloads {
		listed, err := e.listedInputs(name)
		e.must(err)
		all[name] = listed
	}
	return all
}

// rollsOutOncePerInput creates all inputs, and changes one after the other. Only the workloads that
// read the input roll out, within two seconds, and an event and an annotation explain why.
func (e *cinderEnv) rollsOutOncePerInput() {
	e.awaitAvailable()
	all := cinderInputs()
	for _, in := range all {
		in.put(e.env, "the first content")
	}
	e.awaitAvailable()
	e.awaitNoWrites()
	e.awaitAvailable()
	for name, in := range all {
		e.sub(name, func(*testing.T) { e.mustExplainRollout(in, "another content") })
	}
}

func TestCinderRollsOutChangedInputs(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.parts(
		part{"FollowsZones", e.followsZones},
		part{"RollsOutOncePerInput", e.rollsOutOncePerInput},
	)
}

const (
	trustedCAKey       = "ca-bundle.crt"
	trustedCABundle    = "manila-csi-driver-trusted-ca-bundle"
	servingCertificate = "manila-csi-driver-controller-metrics-serving-cert"

	// rolloutPromptly bounds the time from a changed rollout input to the changed pod template.
	rolloutPromptly = 2 * time.Second
)

// input is an object whose content makes workloads roll out.
type input struct {
	put   func(e *env, content string)
	rolls []string
	// listed is its name in the annotation of the workloads.
	listed string
}

// rolledOnce returns nil if a workload changed exactly once since before, by one hash that is the
// same in the workload and in its pod template.
func rolledOnce(before, after workload) error {
	if after.Generation != before.Generation+1 {
		return fmt.Errorf("%s has generation %d after %d, want one more", after.Name, after.Generation,
			before.Generation)
	}
	if diff := cmp.Diff(after.Hashes, after.TemplateHashes); diff != "" {
		return fmt.Errorf("the hashes of %s differ from those of its pods:\n%s", after.Name, diff)
	}
	var changed []string
	for key, value := range after.Hashes {
		if before.Hashes[key] != value {
			changed = append(changed, key)
		}
	}
	if len(changed) != 1 || len(after.Hashes) < len(before.Hashes) {
		return fmt.Errorf("in %s the hashes %v changed, want one:\n%s", after.Name, changed,
			cmp.Diff(before.Hashes, after.Hashes))
	}
	return nil
}

// awaitChangedTemplates waits until the pod templates of the workloads have other hashes.
func (e *env) awaitChangedTemplates(before map[string]workload, rolled []string) {
	e.t.Helper()
	e.eventually(rolloutPromptly, func() error {
		for _, name := range rolled {
			w, err := e.workload(name)
			if err == nil && maps.Equal(w.TemplateHashes, before[name].TemplateHashes) {
				err = fmt.Errorf("the pod template of %s has not changed", name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// hasNewPods returns nil if each pod of the workloads has the current hashes.
func (e *env) hasNewPods(names []string) error {
	for _, name := range names {
		w, err := e.workload(name)
		if err != nil {
			return err
		}
		side, namespace := e.guest, e.subject.OperandNamespace
		if name == e.subject.Workloads[0] {
			side, namespace = e.management, e.subject.controllerNamespace
		}
		pods, err := side.kube.CoreV1().Pods(namespace).List(e.ctx(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		found := 0
		for _, pod := range pods.Items {
			if !strings.HasPrefix(pod.Name, name+"-") {
				continue
			}
			found++
			if !maps.Equal(inputHashes(pod.Annotations), w.TemplateHashes) {
				return fmt.Errorf("pod %s has not been replaced", pod.Name)
			}
		}
		if found == 0 {
			return fmt.Errorf("%s has no pods", name)
		}
	}
	return nil
}

// allMountTrustedCA returns nil if each workload mounts the trusted CA bundle. The golden files
// contain the path.
func (e *env) allMountTrustedCA() error {
	for _, name := range e.subject.Workloads {
		w, err := e.workload(name)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(w.Pod.Volumes, func(v corev1.Volume) bool {
			return v.ConfigMap != nil && v.ConfigMap.Name == e.subject.trustedCA
		}) {
			return fmt.Errorf("%s does not mount the trusted CA bundle", name)
		}
	}
	return nil
}
