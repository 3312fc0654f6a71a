//go:build integration

package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const inputsAnnotation = "operator.openshift.io/rollout-inputs"

func cinderInputs() map[string]input {
	both := []string{cinderController, cinderNode}
	return map[string]input{
		"credentials": {
			func(e *env, content string) {
				e.setClouds(append(e.cloud.CloudsYAML(simulator.Clouds{}), "# "+content+"\n"...))
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

// rollsOutOncePerInput checks that only the workloads that read the input roll out, within two
// seconds, and that an event and an annotation explain why.
func (e *cinderEnv) rollsOutOncePerInput() {
	e.eachInput(cinderInputs(), func(in input) { e.mustExplainRollout(in, "another content") })
}

func TestCinderRollsOutChangedInputs(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{})
	e.parts(
		part{"FollowsZones", e.followsZones},
		part{"RollsOutOncePerInput", e.rollsOutOncePerInput},
	)
}
