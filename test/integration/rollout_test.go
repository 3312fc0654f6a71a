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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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

// inputs returns all rollout inputs and the workloads that they roll out.
func inputs() map[string]input {
	return map[string]input{
		"trusted CA bundle": {
			put: func(e *env, content string) {
				config, err := e.guest.kube.CoreV1().ConfigMaps(operandNamespace).
					Get(e.ctx(), trustedCABundle, metav1.GetOptions{})
				e.must(err)
				config.Data = map[string]string{trustedCAKey: content}
				_, err = e.guest.kube.CoreV1().ConfigMaps(operandNamespace).
					Update(e.ctx(), config, metav1.UpdateOptions{})
				e.must(err)
			},
			rolls: workloadNames(), listed: "configmap/" + trustedCABundle,
		},
		"metrics certificate": {
			put: func(e *env, content string) {
				e.putSecret(operandNamespace, servingCertificate,
					map[string][]byte{"tls.crt": []byte(content), "tls.key": []byte("key")})
			},
			rolls: []string{controllerName, nodeName}, listed: "secret/" + servingCertificate,
		},
	}
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

// eachInput creates all inputs, and then runs a subtest for each.
func (e *env) eachInput(all map[string]input, test func(input)) {
	e.t.Helper()
	e.awaitAvailable()
	names := slices.Sorted(maps.Keys(all))
	for _, name := range names {
		all[name].put(e, "the first content")
	}
	e.awaitAvailable()
	e.awaitNoWrites()
	e.awaitAvailable()
	for _, name := range names {
		e.sub(name, func(*testing.T) { test(all[name]) })
	}
}

// TestChangedInputRollsOutOnce checks that only the workloads that read the input roll out, and
// that an event and an annotation explain why.
func TestChangedInputRollsOutOnce(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{})
	e.eachInput(inputs(), func(in input) { e.mustExplainRollout(in, "another content") })
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
