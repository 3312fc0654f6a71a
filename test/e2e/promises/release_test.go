//go:build e2e

package promises

import (
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
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestReleaseRunsOnNodes installs both drivers on Kubernetes with the files of a release, as
// docs/kubernetes.md says. The nodes pull the operators by digest from a registry. Pods write to
// volumes of both drivers.
func TestReleaseRunsOnNodes(t *testing.T) {
	x := use(t, kind{plain: true})
	folder := x.publish()
	x.Must(os.WriteFile(filepath.Join(folder, "clouds.yaml"),
		x.Cluster.Cloud().CloudsYAML(simulator.Clouds{}), 0o600))
	env := []string{
		"KUBECONFIG=" + x.Cluster.Dir.AdminKubeconfig(), "RELEASE=" + folder,
		"CLOUDS=" + filepath.Join(folder, "clouds.yaml"),
		"PATH=" + x.Cluster.Binaries + string(os.PathListSeparator) + os.Getenv("PATH"),
	}
	page := filepath.Join("..", "..", "..", "docs", "kubernetes.md")
	for _, section := range []struct {
		heading string
		class   pods.Class
	}{
		{"Install the Manila operator", pods.Manila()}, {"Cinder", pods.Cinder()},
	} {
		start := time.Now()
		commands, err := guide.Commands(page, section.heading)
		x.Must(err)
		for _, command := range commands {
			x.Must(guide.Run(t.Context(), command, env...))
		}
		name := section.class.Name
		w := x.writeInStatefulSet(name, section.class)
		w.mustBeUndisturbed()
		t.Logf("%s: a pod writes %v after the start, with %d commands", section.heading,
			time.Since(start).Round(time.Second), len(commands))
		x.mustHaveWrittenInStatefulSet(w, name)
	}
}

// publish pushes the images of a release to a registry on this machine, and returns the folder of
// its files, which name the images by digest.
func (x *test) publish() (folder string) {
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
	return folder
}
