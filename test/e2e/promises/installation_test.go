//go:build e2e

package promises

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

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// way is a way to install both drivers and the snapshot controller, as a page says.
type way struct {
	install, upgrade, remove func(context.Context, published) error
}

// files is the way of docs/kubernetes.md.
func files() way {
	const page = "kubernetes.md"
	sections := func(headings ...string) func(context.Context, published) error {
		return func(ctx context.Context, r published) error {
			for _, heading := range headings {
				if err := r.follow(ctx, page, heading); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return way{
		install: sections("Install the Manila operator", "Install a snapshot controller", "Cinder"),
		upgrade: func(ctx context.Context, r published) error {
			return errors.Join(r.follow(ctx, page, "Upgrade"), r.follow(ctx, page, "Upgrade",
				"manila.yaml", "cinder.yaml", "/manila-csi", "/openstack-cinder-csi"))
		},
		remove: sections("Remove"),
	}
}

// helm is the way of docs/helm.md.
func helm() way {
	const page = "helm.md"
	return way{
		install: func(ctx context.Context, r published) error {
			commands, err := guide.Commands(filepath.Join(docs, page), "Install")
			if err != nil {
				return err
			}
			return r.run(ctx, strings.Replace(commands[0], "manila.enabled=true",
				"manila.enabled=true,cinder.enabled=true,snapshotController.enabled=true", 1))
		},
		upgrade: func(ctx context.Context, r published) error {
			commands, err := guide.Commands(filepath.Join(docs, page), "Upgrade")
			if err != nil {
				return err
			}
			definitions, upgrade, _ := strings.Cut(commands[0], "\n")
			err = r.run(ctx, upgrade)
			if err == nil || !strings.Contains(err.Error(), "is of an earlier release") {
				return fmt.Errorf("the chart is upgraded without its definitions: %w", err)
			}
			return r.run(ctx, definitions+"\n"+upgrade)
		},
		remove: func(ctx context.Context, r published) error {
			return r.follow(ctx, page, "Remove everything")
		},
	}
}

// leavesNothing lets a part of the test install drivers and use volumes, which are deleted at its
// end, and removes the drivers. Objects, and what is on the nodes, must be as before.
func (x *test) leavesNothing(by way, r published, part func(*test)) {
	x.T.Helper()
	before := x.traces()
	x.T.Run("installed", func(t *testing.T) { part(&test{&pods.Test{T: t, Cluster: x.Cluster}}) })
	x.run("kubectl wait pv --all --for=delete --timeout=1m")
	x.Must(by.remove(x.T.Context(), r))
	x.Eventually("nothing is left", func() error {
		if diff := cmp.Diff(before, x.traces()); diff != "" {
			return fmt.Errorf("objects and files (-before +left):\n%s", diff)
		}
		return nil
	})
}

// traces returns all objects, and what makes a driver work on nodes: mounts, and registrations. The
// kubelet keeps the empty folders of a driver, with sockets that nobody serves.
func (x *test) traces() []string {
	x.T.Helper()
	found, err := guide.Objects(x.T.Context(), x.terminal()...)
	x.Must(err)
	for _, node := range x.Cluster.Nodes() {
		pid, err := os.ReadFile(filepath.Join(x.Cluster.Dir.Node(node.Name()), "pid"))
		x.Must(err)
		process := filepath.Join("/proc", string(pid))
		mounts, err := os.ReadFile(filepath.Join(process, "mountinfo"))
		x.Must(err)
		for mount := range strings.Lines(string(mounts)) {
			if strings.Contains(mount, "kubernetes.io~csi") || strings.Contains(mount, "kubernetes.io/csi") {
				found = append(found, node.Name()+" mount "+mount)
			}
		}
		files, err := filepath.Glob(filepath.Join(process, "root/var/lib/kubelet/plugins_registry/*"))
		x.Must(err)
		for _, file := range files {
			found = append(found, node.Name()+" registration "+filepath.Base(file))
		}
	}
	slices.Sort(found)
	return found
}

// awaitReady waits until both drivers are ready.
const awaitReady = "kubectl wait maniladriver,cinderdriver --all --for=condition=Ready --timeout=5m"

// measures installs both drivers, and logs how long it takes until they are ready, and until pods
// write to volumes of both, which another pod then reads.
func (x *test) measures(install func()) {
	x.T.Helper()
	start := time.Now()
	seconds := func() time.Duration { return time.Since(start).Round(time.Second / 10) }
	install()
	x.run(awaitReady)
	ready := seconds()
	all := writers{
		x.WriteInStatefulSet("volume", pods.Cinder(), ""),
		x.WriteInStatefulSet("share", pods.Manila(), ""),
	}
	x.T.Logf("the drivers were ready after %v, and pods wrote to a volume and a share after %v", ready,
		seconds())
	all.mustBeUndisturbed()
	all.mustHaveWritten()
}
