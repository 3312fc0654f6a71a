//go:build integration && long

package integration

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/devcluster/process"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestPluginRotatesWithCAFile checks rotations while cloud-credential-operator replaces the CA file
// of clouds.yaml.
func TestPluginRotatesWithCAFile(t *testing.T) {
	t.Parallel()
	e := newCinder(t, options{Idle: true})
	e.createRootCredentials()
	e.followRootCredentials()
	hidden := strings.ReplaceAll(e.clouds("ca.pem"), "cacert:", `"cac\x65rt":`)
	for _, clouds := range []string{e.clouds("ca.pem"), hidden} {
		rotation := e.startRotationTo(clouds)
		e.eventually(soon, ended(rotation))
		if output := e.rotationOutput(); rotation.Err() == nil ||
			!strings.Contains(output, "cacert: "+caFromConfigMap) ||
			!strings.Contains(output, "Nothing was changed") {
			t.Errorf("with another CA file the rotation ended with %v:\n%s", rotation.Err(), output)
		}
	}

	fresh := e.clouds(caFromConfigMap) + "# fresh\n"
	e.mustFinish(e.startRotationTo(fresh))
	once, err := e.rootState()
	e.must(err)
	e.mustFinish(e.startRotationTo(fresh))
	e.eventually(soon, func() error {
		twice, err := e.rootState()
		if err == nil {
			err = checkEqual(once, twice)
		}
		return err
	})
	e.must(e.hasRootCredentials(rootCredentials, []byte(fresh)))

	e.mustFinish(e.startRotation(rotationLimit, "--undo"))
	if err := e.hasRootCredentials(rootCredentials, []byte(fresh)); err == nil {
		t.Error("the cluster still has the credentials from before --undo")
	}
}

// clouds returns a clouds.yaml with a CA file.
func (e *env) clouds(ca string) string {
	return string(e.cloud.CloudsYAML(simulator.Clouds{CACert: ca}))
}

// startRotationTo starts a rotation to a clouds.yaml.
func (e *env) startRotationTo(clouds string) *process.Process {
	e.t.Helper()
	file := e.file("clouds-with-ca.yaml")
	e.must(paths.WriteFile(file, []byte(clouds)))
	return e.startRotation(rotationLimit, file)
}

// rootState returns the root credentials with their version, and the generation of the Deployment
// that uses them.
func (e *env) rootState() (string, error) {
	root, err := e.guest.kube.CoreV1().Secrets(rootNamespace).
		Get(e.ctx(), rootCredentials, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	deployment, err := e.guest.kube.AppsV1().Deployments(e.subject.Credentials[0].Namespace).
		Get(e.ctx(), earlyWorkload, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("version %s, generation %d: %s", root.ResourceVersion, deployment.Generation,
		root.Data["clouds.yaml"]), nil
}

// followRootCredentials plays cloud-credential-operator, and the operator of a Deployment, until
// the test ends.
func (e *env) followRootCredentials() {
	e.t.Helper()
	e.must(e.copyRootCredentials(e.ctx()))
	ctx, cancel := context.WithCancel(e.ctx())
	var playing sync.WaitGroup
	playing.Go(func() {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			err := e.copyRootCredentials(ctx)
			if err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) {
				e.t.Errorf("playing cloud-credential-operator: %v", err)
			}
		}, 100*time.Millisecond)
	})
	e.t.Cleanup(func() {
		cancel()
		playing.Wait()
	})
}

// copyRootCredentials corrects the root Secret and copies it to the driver's, as
// cloud-credential-operator does, and writes its hash into a Deployment, as an operator does.
func (e *env) copyRootCredentials(ctx context.Context) error {
	root, err := e.guest.kube.CoreV1().Secrets(rootNamespace).
		Get(ctx, rootCredentials, metav1.GetOptions{})
	if err != nil {
		return err
	}
	clouds, err := withCAOfCluster(root.Data["clouds.yaml"])
	if err != nil {
		return err
	}
	if string(clouds) != string(root.Data["clouds.yaml"]) {
		root.Data["clouds.yaml"] = clouds
		_, err := e.guest.kube.CoreV1().Secrets(rootNamespace).
			Update(ctx, root, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
	}
	hash := fmt.Sprintf("%08x", crc32.ChecksumIEEE(clouds))
	return e.rollOut(ctx, root.Data, hash, earlyWorkload)
}

// withCAOfCluster replaces the CA file of a clouds.yaml, and then writes the file in its own way.
func withCAOfCluster(text []byte) ([]byte, error) {
	var file struct {
		Clouds map[string]map[string]any `json:"clouds"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	entry := file.Clouds["openstack"]
	if ca, found := entry["cacert"]; !found || ca == caFromConfigMap {
		return text, nil
	}
	entry["cacert"] = caFromConfigMap
	return yaml.Marshal(file)
}
