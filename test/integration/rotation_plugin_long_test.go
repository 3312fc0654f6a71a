//go:build integration && long

package integration

import (
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

// TestPluginRotates checks that a rotation ends when the drivers use the new credentials, and
// reverts them. The test plays cloud-credential-operator, which copies the credentials.
func TestPluginRotates(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Idle: true})
	e.createRootCredentials()
	given, old := e.cloud.Credentials(), e.cloud.CloudsYAML(simulator.Clouds{})
	e.setClouds(old)
	e.putSecret(rootNamespace, rootCredentials, map[string][]byte{"clouds.yaml": old})
	e.startOperator()
	before := e.awaitIdle()

	e.rotate(simulator.Rotation{})
	fresh := e.file("new-clouds.yaml")
	e.must(paths.WriteFile(fresh, e.cloud.CloudsYAML(simulator.Clouds{})))
	rotation := e.startRotation(fresh)
	e.eventually(soon, func() error {
		return e.hasRootCredentials(rootCredentials, e.cloud.CloudsYAML(simulator.Clouds{}))
	})
	e.must(e.hasRootCredentials(rootBackup, old))
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
	rotation = e.startRotation("--undo")
	e.eventually(soon, func() error { return e.hasRootCredentials(rootCredentials, old) })
	e.setClouds(old)
	e.mustFinish(rotation)
	e.must(e.hasRootCredentials(rootBackup, old))
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
func (e *env) startRotation(argument string) *process.Process {
	e.t.Helper()
	e.must(os.RemoveAll(e.rotationLog()))
	p := e.startProgram(process.Options{
		Name: "the rotation", Path: filepath.Join(shared.Bin, "kubectl-openstack_csi"),
		Log: e.rotationLog(),
		Args: []string{
			"rotate", "--kubeconfig=" + e.guest.dir.AdminKubeconfig(), "--timeout=" + rotationLimit.String(),
			argument,
		},
	})
	e.t.Cleanup(p.Kill)
	return p
}
