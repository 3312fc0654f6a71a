package kubectl

import (
	"context"
	"errors"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// loginIn returns a clouds.yaml with another user for each name.
func loginIn(name string) []byte {
	return []byte(strings.Replace(string(cloudsYAML(name)), "username: u", "username: "+name, 1))
}

// newCredentials returns a cluster with credentials a in each place where they can be.
func newCredentials(t *testing.T, place string) *rotatingCluster {
	t.Helper()
	objects := []client.Object{
		copied(loginIn("a")), withClouds(rootNamespace, rootSecret, loginIn("a")),
	}
	if place == "drivers" {
		objects = []client.Object{
			withClouds(manilaNamespace, manilaSecret, loginIn("m")),
			withClouds(flavour.DefaultNamespace, manilaSecret, loginIn("m")),
			withClouds(flavour.DefaultNamespace, cinderSecret, loginIn("a")),
		}
	}
	c := newRotatingCluster(t, objects...)
	c.rolls = map[string]bool{"early": true, "late": true}
	return c
}

// secrets returns all Secrets that a rotation may read or change.
func (c *rotatingCluster) secrets() (all []client.Object) {
	c.Helper()
	var found corev1.SecretList
	assert.NilError(c, c.List(c.Context(), &found))
	for _, s := range found.Items {
		if s.ResourceVersion = ""; !strings.HasSuffix(s.Name, "-hash-key") {
			all = append(all, &s)
		}
	}
	return all
}

// writeAll plays somebody who changes the credentials without the command.
func (c *rotatingCluster) writeAll(content []byte) {
	for _, o := range c.secrets() {
		if s, ok := o.(*corev1.Secret); ok && s.Name != backupSecret {
			s.Data[cloudsKey] = content
			assert.NilError(c, c.Update(c.Context(), s))
		}
	}
}

// writing makes each write of the command fail after the first ones, and counts the writes.
func (c *rotatingCluster) writing(first int) *int {
	n, inner := 0, c.WithWatch
	allow := func() error {
		if n++; n > first {
			return errors.New("the connection is lost")
		}
		return nil
	}
	c.WithWatch = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, to client.WithWatch, o client.Object,
			options ...client.CreateOption,
		) error {
			if err := allow(); err != nil {
				return err
			}
			return to.Create(ctx, o, options...)
		},
		Patch: func(ctx context.Context, to client.WithWatch, o client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			if err := allow(); err != nil {
				return err
			}
			return to.Patch(ctx, o, patch, options...)
		},
	})
	return &n
}

// Whoever repeats a command that was interrupted after any write gets what one run makes, and a
// further repetition changes nothing and waits for nothing.
func TestInterruptedRotationCanBeRepeated(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"root", "drivers"} {
		for _, steps := range []string{
			"b", "b --undo", "b --undo --undo", "b --undo b --undo", "b c --undo", "b --undo =d --undo",
		} {
			t.Run(place+" "+steps, func(t *testing.T) {
				t.Parallel()
				c, arguments := newCredentials(t, place), strings.Fields(steps)
				last := len(arguments) - 1
				for i, one := range arguments {
					if by, byHand := strings.CutPrefix(one, "="); byHand {
						c.writeAll(loginIn(by))
						continue
					}
					if one != "--undo" {
						arguments[i] = file(t, loginIn(one))
					}
					if i < last {
						c.mustRotate(exitOK, "", arguments[i])
					}
				}
				c.repeat(arguments[last])
			})
		}
	}
}

// repeat compares one run of a command with interrupted ones, in copies of the cluster.
func (c *rotatingCluster) repeat(argument string) {
	before := c.secrets()
	start := func() *rotatingCluster {
		started := newRotatingCluster(c.T, before...)
		started.rolls = c.rolls
		return started
	}
	whole, replaces := start(), c.data(flavour.DefaultNamespace, cinderSecret)[cloudsKey]
	all := whole.writing(100)
	whole.mustRotate(exitOK, "", argument)
	for key, value := range whole.data(rootNamespace, backupSecret) {
		isCinder := key == replaced+cloudsKey || strings.Contains(key, cinderSecret)
		if isCinder && strings.HasPrefix(key, replaced) && *all > 1 {
			assert.Check(c, is.DeepEqual(replaces, value), key)
		}
	}
	for n := range *all {
		again := start()
		online := again.WithWatch
		again.writing(n)
		again.mustRotate(exitFailed, "the connection is lost", argument)
		again.WithWatch = online
		again.mustRotate(exitOK, "", argument)
		assert.Check(c, is.DeepEqual(whole.secrets(), again.secrets()), "after %d writes", n)
		again.rolls = nil
		again.mustRotate(exitOK, "contains these credentials already", argument)
		assert.Check(c, is.DeepEqual(whole.secrets(), again.secrets()), "again")
	}
}

// A workload that kept the credentials of before does not roll out when they are written back.
func TestRotationWaitsForNoRolloutThatWas(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"--undo", "a"} {
		c := newCredentials(t, "root")
		if argument == "a" {
			argument = file(t, loginIn("a"))
		}
		c.rolls = map[string]bool{"early": true}
		c.mustRotate(exitFailed, "canceled, waiting until the operator has changed Deployment/late",
			file(t, loginIn("b")), "--timeout=1m")
		c.waits = 0
		c.mustRotate(exitOK, "Deployment/late in openshift-cluster-csi-drivers runs with", argument)
		c.waits = 0
		c.mustRotate(exitOK, "contains these credentials already", argument)
	}
}

func TestDryRunOfUndoLogsIn(t *testing.T) {
	t.Parallel()
	cloud, accepted := newCloud(t, simulator.Config{})
	says := "OpenStack accepts the login of Secret kube-system/openstack-credentials"
	for _, code := range []int{exitOK, exitFailed} {
		if code == exitFailed {
			cloud.RotateCredentials(simulator.Rotation{Password: "another"})
			says = "from this machine: OpenStack's identity service"
		}
		c := newCredentials(t, "root")
		c.mustRotate(exitOK, "", accepted)
		c.mustRotate(exitOK, "", file(t, loginIn("b")))
		before := c.secrets()
		c.mustRotate(code, says, "--undo", "--dry-run")
		assert.Check(t, is.DeepEqual(before, c.secrets()))
	}
}
