//go:build e2e

package promises

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/openstack-csi/csi-operator/hack/images/release"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/node/images"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// root is the folder of the sources, docs that of the pages.
const (
	root = "../../.."
	docs = root + "/docs"
)

// earlier is the commit from which upgrades begin: the latest release, or before the first one the
// state that it is to have.
const earlier = "22d8eb87241af995045fd79db127dc95210c48da"

// published are the files of a release for the commands of pages.
type published struct {
	folder string
	env    []string
}

// with returns p with more variables.
func (p published) with(env ...string) published {
	return published{p.folder, append(slices.Clone(p.env), env...)}
}

func (p published) run(ctx context.Context, command string) error {
	return guide.Run(ctx, command, p.env...)
}

// follow runs the commands in a section of a page, in which each text of the pairs is replaced by
// the next one.
func (p published) follow(ctx context.Context, page, heading string, pairs ...string) error {
	commands, err := guide.Commands(filepath.Join(docs, page), heading)
	for _, command := range commands {
		if err == nil {
			err = p.run(ctx, strings.NewReplacer(pairs...).Replace(command))
		}
	}
	return err
}

// writeClouds writes the credentials that OpenStack accepts now into the file for the commands.
func (p published) writeClouds(x *test) {
	x.T.Helper()
	text := x.Cluster.Cloud().CloudsYAML(simulator.Clouds{})
	x.Must(os.WriteFile(filepath.Join(p.folder, "clouds.yaml"), text, 0o600))
}

// publish returns the files of this release.
func (x *test) publish() published {
	x.T.Helper()
	return x.build("v1.0.0", func() string { return root })
}

// publishEarlier returns the files of the release that upgrades replace, built from the history of
// git. Its drivers and sidecars are the programs of this release in images with other names, so
// that an upgrade replaces all pods.
func (x *test) publishEarlier() published {
	x.T.Helper()
	return x.build("v0.9.0", func() string {
		sources := x.T.TempDir()
		x.run("set -o pipefail; git -C " + root + " archive " + earlier + " | tar -x -C " + sources +
			" || { echo 'only a complete clone has the commit from which upgrades begin'; exit 1; }")
		// The schema of this release has new fields.
		x.run("cd " + sources + `; sed -i '/^\tRevision /s/[0-9]/1/' pkg/api/api.go; sed -i ` +
			`'/csi.openstack.org\/revision:/s/[0-9]/1/' $(grep -rl csi.openstack.org/revision: assets)`)
		x.renameImages(sources)
		return sources
	})
}

// renameImages gives the images of the drivers and sidecars other names, in sources and in the
// registry.
func (x *test) renameImages(sources string) {
	x.T.Helper()
	prefix := x.Cluster.Registry() + "/earlier/"
	all, err := images.List(root)
	x.Must(err)
	for _, one := range all {
		image, err := crane.Load(one.File)
		x.Must(err)
		file, err := image.ConfigFile()
		x.Must(err)
		config := file.DeepCopy().Config
		// With another ID: the kubelet asks a registry about an image that it pulled by another name.
		config.Labels = map[string]string{"release": "earlier"}
		image, err = mutate.Config(image, config)
		x.Must(err)
		name, _, _ := strings.Cut(path.Base(one.Name), ":")
		x.Must(crane.Push(image, prefix+name, crane.Insecure))
	}
	variable := regexp.MustCompile(`(_IMAGE\n +value: )\S*/([^/:\s]+):\S+\n`)
	for _, pattern := range []string{
		"drivers/*/generated/kubernetes/operator/deployment.yaml",
		"helm/generated/*/files/drivers/*.yaml",
	} {
		files, err := filepath.Glob(filepath.Join(sources, "assets", pattern))
		x.Must(err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			x.Must(err)
			text = variable.ReplaceAll(text, []byte("${1}"+prefix+"${2}\n"))
			x.Must(os.WriteFile(file, text, 0o600))
		}
	}
}

// build builds a release, once for a cluster, from a folder of sources. The images are in a
// registry on this machine.
func (x *test) build(version string, sources func() string) published {
	x.T.Helper()
	p, found := running.releases[version]
	if !found {
		x.Must(running.startRegistry())
		folder := filepath.Join(running.folder, version)
		p = published{folder, append(x.terminal(), "RELEASE="+folder,
			"CLOUDS="+filepath.Join(folder, "clouds.yaml"),
			"CHART="+filepath.Join(folder, "openstack-csi-"+strings.TrimPrefix(version, "v")+".tgz"))}
		x.pushRelease(release.Options{
			Root: sources(), Output: folder, Version: version,
			Platforms: []string{"linux/" + runtime.GOARCH}, Insecure: true,
			Push: x.Cluster.Registry() + "/csi", Kubectl: filepath.Join(x.Cluster.Binaries, "kubectl"),
		})
		running.releases[version] = p
	}
	p.writeClouds(x)
	return p
}

// pushRelease pushes the images of a release, and writes its files, which name them by digest.
func (x *test) pushRelease(o release.Options) {
	x.T.Helper()
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
	o.Registry = o.Push // that of the chart
	files, err := o.Manifests(x.T.Context(), images)
	x.Must(err)
	for name, text := range files {
		x.Must(os.WriteFile(filepath.Join(o.Output, name), text, 0o600))
	}
}

// startRegistry starts a registry for the nodes until the cluster stops, and creates a folder for
// releases.
func (l *lab) startRegistry() error {
	if l.folder != "" {
		return nil
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", l.Registry())
	if err != nil {
		return err
	}
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	l.registry = &http.Server{
		Handler: registry.New(registry.WithReferrersSupport(true), quiet), ReadHeaderTimeout: time.Minute,
	}
	go func() { _ = l.registry.Serve(listener) }() // until Close
	l.releases = map[string]published{}
	l.folder, err = os.MkdirTemp("", "promises-")
	return err
}
