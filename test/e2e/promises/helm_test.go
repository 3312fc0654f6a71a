//go:build e2e

package promises

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestHelmRunsOnNodes installs both drivers with the one command of docs/helm.md, after one with a
// wrong password. It rotates the credentials, and removes everything.
func TestHelmRunsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.publish()
	for _, major := range []string{"helm4", "helm3"} {
		t.Run(major, func(t *testing.T) {
			x := &test{&pods.Test{T: t, Cluster: x.Cluster}}
			r := x.withHelm(r, major)
			x.leavesNothing(helm(), r, func(x *test) { x.refusesWrongPassword(r, major) })
			x.leavesNothing(helm(), r, func(x *test) {
				x.measures(func() { x.Must(helm().install(x.T.Context(), r)) })
				x.rotatesWithHelm(r)
			})
		})
	}
}

// withHelm returns the files of a release with a program helm, of one of its majors.
func (x *test) withHelm(r published, major string) published {
	x.T.Helper()
	folder := x.T.TempDir()
	program := filepath.Join(os.Getenv("BIN_DIR"), "tools", major)
	x.Must(os.Symlink(program, filepath.Join(folder, "helm")))
	return r.with(x.terminal(folder)...)
}

// refusesWrongPassword installs the drivers with a wrong password.
func (x *test) refusesWrongPassword(r published, major string) {
	x.T.Helper()
	right := x.Cluster.Cloud().CloudsYAML(simulator.Clouds{})
	wrong := filepath.Join(x.T.TempDir(), "clouds.yaml")
	x.Must(os.WriteFile(wrong,
		bytes.Replace(right, []byte("password: "), []byte("password: wrong"), 1), 0o600))
	start := time.Now()
	err := helm().install(x.T.Context(), r.with("CLOUDS="+wrong))
	x.T.Logf("helm ended after %v: %v", time.Since(start).Round(time.Second), err)
	if major == "helm4" {
		assert.ErrorContains(x.T, err, "refused the login")
		assert.Check(x.T, time.Since(start) < time.Minute, "helm waited")
	}
	x.T.Log(strings.TrimSpace(x.run("kubectl get maniladrivers,cinderdrivers")))
}

// rotatesWithHelm changes the credentials in OpenStack and in the release.
func (x *test) rotatesWithHelm(r published) {
	x.T.Helper()
	all := x.write("rotation")
	x.Cluster.Cloud().RotateCredentials(simulator.Rotation{})
	r.writeClouds(x)
	x.Must(r.run(x.T.Context(), `helm upgrade openstack-csi "$CHART" --namespace=openstack-csi `+
		`--reset-then-reuse-values --set-file=credentials.clouds="$CLOUDS"`))
	x.write("rotated").mustHaveWritten() // only a driver with the new credentials creates them
	all.mustBeUndisturbed()
	all.mustHaveWritten()
}
