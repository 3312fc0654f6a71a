//go:build e2e

package promises

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/openstack-csi/csi-operator/hack/images/release"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/docs/olm"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// docs is the folder of the pages.
const docs = "../../../docs"

// TestReleaseRunsOnNodes installs both drivers on Kubernetes with the files of a release, as
// docs/kubernetes.md says. The nodes pull the operators by digest from a registry. Pods write to
// volumes of both drivers. Then it removes the drivers.
func TestReleaseRunsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.publish()
	x.CleanUp(func(ctx context.Context) error {
		return errors.Join(r.run(ctx, "kubectl wait pv --all --for=delete --timeout=1m"),
			r.follow(ctx, "Remove Manila"), r.follow(ctx, "Remove Cinder"))
	})
	for heading, class := range map[string]pods.Class{
		"Install the Manila operator": pods.Manila(), "Cinder": pods.Cinder(),
	} {
		start := time.Now()
		x.Must(r.follow(t.Context(), heading))
		x.writes(class)
		t.Logf("%s: a pod has written %v after the start", heading, time.Since(start).Round(time.Second))
	}
}

// TestOLMInstallsOnNodes installs the operator of Manila and the controller of CSI-Addons from the
// catalog of a release, as docs/olm.md says. OLM runs on this machine.
func TestOLMInstallsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.publish()
	o := olm.Start(t, olm.Options{
		Kubeconfig: x.Cluster.Dir.AdminKubeconfig(), Logs: x.Cluster.Dir.Logs(),
		Docs: docs, Catalog: filepath.Join(r.folder, "catalog-kubernetes.yaml"),
		Run: func(command string) { x.Must(r.run(t.Context(), command)) },
	})
	packages := []olm.Package{olm.Manila(), olm.CSIAddons()}
	for _, p := range packages {
		o.Install(p)
	}
	for _, p := range packages {
		o.Await(p, "v1.0.0")
	}
	o.AwaitReady(olm.Manila())
	x.writes(pods.Manila())
}

// writes lets a pod write to a volume, and checks what it wrote.
func (x *test) writes(class pods.Class) {
	x.T.Helper()
	w := x.WriteInStatefulSet(class.Name, class, "")
	w.MustBeUndisturbed()
	w.MustHaveWritten()
}

// published are the files of a release for the commands of pages.
type published struct {
	folder string
	env    []string
}

func (p published) run(ctx context.Context, command string) error {
	return guide.Run(ctx, command, p.env...)
}

// follow runs the commands in a section of docs/kubernetes.md.
func (p published) follow(ctx context.Context, heading string) error {
	commands, err := guide.Commands(filepath.Join(docs, "kubernetes.md"), heading)
	for _, command := range commands {
		if err == nil {
			err = p.run(ctx, command)
		}
	}
	return err
}

// publish pushes the images of a release to a registry on this machine. It returns the files, which
// name the images by digest.
func (x *test) publish() published {
	x.T.Helper()
	address, folder := x.Cluster.Registry(), x.T.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(x.T.Context(), "tcp", address)
	x.Must(err)
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := &http.Server{
		Handler: registry.New(registry.WithReferrersSupport(true), quiet), ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = server.Serve(listener) }() // until Close
	x.T.Cleanup(func() { _ = server.Close() })
	o := release.Options{
		Root: filepath.Join("..", "..", ".."), Output: folder, Version: "v1.0.0",
		Platforms: []string{"linux/" + runtime.GOARCH}, Push: address + "/csi", Insecure: true,
		Kubectl: filepath.Join(x.Cluster.Binaries, "kubectl"),
	}
	x.Must(release.Build(x.T.Context(), o, os.Stderr))
	images := map[string]string{}
	for _, name := range []string{
		"manila-csi-driver-operator", "openstack-cinder-csi-driver-operator", "csi-addons",
	} {
		repository := o.Push + "/" + name
		digest, err := crane.Digest(repository+":"+o.Version, crane.Insecure)
		x.Must(err)
		images[name] = repository + "@" + digest
	}
	files, err := o.Manifests(x.T.Context(), images)
	x.Must(err)
	for name, text := range files {
		x.Must(os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	clouds := filepath.Join(folder, "clouds.yaml")
	x.Must(os.WriteFile(clouds, x.Cluster.Cloud().CloudsYAML(simulator.Clouds{}), 0o600))
	return published{folder, append(x.terminal(), "RELEASE="+folder, "CLOUDS="+clouds)}
}
