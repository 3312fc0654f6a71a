//go:build integration && long

package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Secrets of `kubectl openstack-csi rotate`: the cluster's credentials and the backup.
const (
	rootNamespace   = "kube-system"
	rootCredentials = "openstack-credentials"
	rootBackup      = "openstack-credentials-before-rotation"
)

// rotationLimit is the time limit of a rotation. A busy machine does not reach it.
const rotationLimit = 5 * time.Minute

func TestPluginRotates(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Idle: true})
	e.createRootCredentials()
	e.parts(
		part{"RefusesInvalidCloudsYAML", e.refusesInvalidFiles},
		part{"GoesBackAfterUnfinishedRotations", e.goesBackAfterUnfinishedRotations},
		part{"RotatesAndUndoes", e.rotatesAndUndoes},
	)
}

// refusesInvalidFiles checks that invalid files change nothing.
func (e *env) refusesInvalidFiles() {
	for name, text := range map[string]string{
		"empty": "", "random": "\x00\x7f\x01\xff",
		"text": "hello", "wrong entry": "clouds: {a: {}, b: {}}\n",
	} {
		file := e.file("nonsense.yaml")
		e.must(paths.WriteFile(file, []byte(text)))
		rotation := e.startRotation(rotationLimit, file)
		e.eventually(soon, ended(rotation))
		if output := e.rotationOutput(); rotation.Err() == nil ||
			!strings.Contains(output, "Nothing was changed") {
			e.t.Errorf("%s: the rotation ended with %v:\n%s", name, rotation.Err(), output)
		}
	}
	e.must(e.hasRootCredentials(rootCredentials, e.cloud.CloudsYAML(simulator.Clouds{})))
	_, err := e.guest.kube.CoreV1().Secrets(rootNamespace).
		Get(e.ctx(), rootBackup, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		e.t.Errorf("the backup exists: %v", err)
	}
	rotation := e.startRotation(rotationLimit, "--undo")
	e.eventually(soon, ended(rotation))
	if output := e.rotationOutput(); rotation.Err() == nil ||
		!strings.Contains(output, "nothing to go back to") {
		e.t.Errorf("undo ended with %v:\n%s", rotation.Err(), output)
	}
}

// goesBackAfterUnfinishedRotations plays the operator of two Deployments. In a rotation that does
// not finish only the first changes.
func (e *env) goesBackAfterUnfinishedRotations() {
	const undo = "--undo"
	for name, steps := range map[string][]rotationStep{
		"undo":                   {{to: "b"}, {to: "c"}, {to: "a", argument: undo, finishes: true}},
		"with the previous file": {{to: "b"}, {to: "a", finishes: true}},
		"undo after an unfinished undo": {
			{to: "b", finishes: true},
			{to: "a", argument: undo},
			{to: "c"},
			{to: "a", argument: undo, finishes: true},
		},
	} {
		e.sub(name, func(*testing.T) {
			e.putSecret(rootNamespace, rootCredentials, e.rootData("a"))
			e.putSecret(rootNamespace, rootBackup, map[string][]byte{"finished": []byte("yes")})
			e.roll("a", earlyWorkload, lateWorkload)
			for _, step := range steps {
				e.take(step)
			}
		})
	}
	for _, name := range []string{earlyWorkload, lateWorkload} {
		e.delete(resource("apps", "deployments"), e.subject.Credentials[0].Namespace, name)
	}
}

// Deployments of goesBackAfterUnfinishedRotations.
const earlyWorkload, lateWorkload = "early", "late"

// rotationStep is a rotation to the credentials `to`. Its argument defaults to the file with them.
type rotationStep struct {
	to, argument string
	finishes     bool
}

func (e *env) take(step rotationStep) {
	e.t.Helper()
	data, file := e.rootData(step.to), e.file(step.to+".yaml")
	e.must(paths.WriteFile(file, data["clouds.yaml"]))
	limit, rolled := 10*time.Second, []string{earlyWorkload}
	if step.finishes {
		limit, rolled = rotationLimit, append(rolled, lateWorkload)
	}
	rotation := e.startRotation(limit, cmp.Or(step.argument, file))
	e.eventually(soon, func() error {
		return e.hasRootCredentials(rootCredentials, data["clouds.yaml"])
	})
	e.roll(step.to, rolled...)
	if step.finishes {
		e.mustFinish(rotation)
		return
	}
	e.eventually(time.Minute, ended(rotation))
	if output := e.rotationOutput(); rotation.Err() == nil ||
		!strings.Contains(output, "the time limit has passed") {
		e.t.Errorf("the rotation ended with %v:\n%s", rotation.Err(), output)
	}
}

func (e *env) rootData(name string) map[string][]byte {
	text := e.cloud.CloudsYAML(simulator.Clouds{})
	return map[string][]byte{"clouds.yaml": append(text, "# "+name+"\n"...)}
}

// roll rolls out credentials that differ in a comment.
func (e *env) roll(credentials string, deployments ...string) {
	e.t.Helper()
	e.must(e.rollOut(e.ctx(), e.rootData(credentials), credentials, deployments...))
}

// rollOut writes credentials to the driver's Secret, and their hash into Deployments without pods.
func (e *env) rollOut(
	ctx context.Context, credentials map[string][]byte, hash string, deployments ...string,
) error {
	secret := e.subject.Credentials[0]
	err := e.guest.putSecret(ctx, secret.Namespace, secret.Name, credentials)
	for _, name := range deployments {
		text := fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": {"name": %q, "annotations": {%q: "secret/%s=%s"}},
			"spec": {"replicas": 0, "selector": {"matchLabels": {"app": %[1]q}}, "template": {
				"metadata": {"labels": {"app": %[1]q}},
				"spec": {"containers": [{"name": "a", "image": "a"}]}}}}`,
			name, inputsAnnotation, secret.Name, hash)
		_, failed := e.guest.kube.AppsV1().Deployments(secret.Namespace).Patch(ctx, name,
			types.ApplyPatchType, []byte(text), metav1.PatchOptions{FieldManager: "test"})
		err = errors.Join(err, failed)
	}
	return err
}

// rotatesAndUndoes checks that a rotation gives up when a step takes too long, continues when it
// runs again, ends when the drivers use the new credentials, and reverts them. The test plays
// cloud-credential-operator, which copies the credentials.
func (e *env) rotatesAndUndoes() {
	given, old := e.cloud.Credentials(), e.cloud.CloudsYAML(simulator.Clouds{})
	e.setClouds(old)
	e.putSecret(rootNamespace, rootCredentials, map[string][]byte{"clouds.yaml": old})
	e.startOperator()
	before := e.awaitIdle()

	e.rotate(simulator.Rotation{})
	fresh := e.file("new-clouds.yaml")
	e.must(paths.WriteFile(fresh, e.cloud.CloudsYAML(simulator.Clouds{})))
	rotation := e.startRotation(10*time.Second, fresh)
	e.eventually(time.Minute, ended(rotation))
	if output := e.rotationOutput(); rotation.Err() == nil ||
		!strings.Contains(output,
			"the time limit has passed, waiting until the cloud credential operator has copied") {
		e.t.Errorf("without copied credentials the rotation ended with %v:\n%s", rotation.Err(), output)
	}
	e.must(e.hasRootCredentials(rootCredentials, e.cloud.CloudsYAML(simulator.Clouds{})))
	e.must(e.hasRootCredentials(rootBackup, old))

	rotation = e.startRotation(rotationLimit, fresh)
	e.setClouds(e.cloud.CloudsYAML(simulator.Clouds{}))
	e.mustFinish(rotation)
	e.awaitAvailable()
	e.must(e.hasCondition(cinderReachable, opv1.ConditionTrue, ""))
	e.mustRollOutOnly(before, cinderController)

	e.cloud.RotateCredentials(simulator.Rotation{
		Password:                    given.Password,
		ApplicationCredentialID:     given.ApplicationCredentialID,
		ApplicationCredentialSecret: given.ApplicationCredentialSecret,
	})
	rotation = e.startRotation(rotationLimit, "--undo")
	e.eventually(soon, func() error { return e.hasRootCredentials(rootCredentials, old) })
	e.setClouds(old)
	e.mustFinish(rotation)
	text, err := os.ReadFile(fresh)
	e.must(err)
	e.must(e.hasRootCredentials(rootBackup, text))
}

// createRootCredentials creates the Secret that cloud-credential-operator copies.
func (e *env) createRootCredentials() {
	e.t.Helper()
	e.putSecret(rootNamespace, rootCredentials,
		map[string][]byte{"clouds.yaml": e.cloud.CloudsYAML(simulator.Clouds{})})
	e.afterwards(func(ctx context.Context) error {
		secrets := e.guest.kube.CoreV1().Secrets(rootNamespace)
		if err := secrets.Delete(ctx, rootBackup, metav1.DeleteOptions{}); err != nil &&
			!apierrors.IsNotFound(err) {
			return err
		}
		return secrets.Delete(ctx, rootCredentials, metav1.DeleteOptions{})
	})
}

// hasRootCredentials returns nil if the Secret contains this clouds.yaml.
func (e *env) hasRootCredentials(name string, clouds []byte) error {
	secret, err := e.guest.kube.CoreV1().Secrets(rootNamespace).Get(e.ctx(), name, metav1.GetOptions{})
	if err == nil && string(secret.Data["clouds.yaml"]) != string(clouds) {
		err = fmt.Errorf("%s/%s has other credentials", rootNamespace, name)
	}
	return err
}

// mustFinish waits until the rotation succeeds.
func (e *env) mustFinish(rotation *process.Process) {
	e.t.Helper()
	e.eventually(time.Minute, ended(rotation))
	output := e.rotationOutput()
	if rotation.Err() != nil || !strings.Contains(output, "The drivers run with these credentials") {
		e.t.Errorf("the rotation ended with %v:\n%s", rotation.Err(), output)
	}
	if found := found(output, slices.Concat(e.secrets, e.proxyPasswords)); len(found) > 0 {
		e.t.Errorf("the output of the rotation contains the secrets %v", found)
	}
}

// ended returns a check that returns nil if the process has ended.
func ended(p *process.Process) func() error {
	return func() error {
		if p.Running() {
			return errors.New("the process has not ended")
		}
		return nil
	}
}

// file returns the path of a file of this test.
func (e *env) file(name string) string { return filepath.Join(string(e.files), name) }

func (e *env) rotationLog() string { return e.file("rotation.log") }

// rotationOutput returns the output of the rotation that startRotation started.
func (e *env) rotationOutput() string {
	e.t.Helper()
	output, err := os.ReadFile(e.rotationLog())
	e.must(err)
	return string(output)
}

// startRotation starts `kubectl openstack-csi rotate` as an administrator.
func (e *env) startRotation(limit time.Duration, args ...string) *process.Process {
	e.t.Helper()
	e.must(os.RemoveAll(e.rotationLog()))
	p := e.startProgram(process.Options{
		Name: "the rotation", Path: filepath.Join(e.bin, "kubectl-openstack_csi"), Log: e.rotationLog(),
		Args: append([]string{
			"rotate", "--kubeconfig=" + e.guest.dir.AdminKubeconfig(), "--timeout=" + limit.String(),
		}, args...),
	})
	e.t.Cleanup(p.Kill)
	return p
}
