//go:build integration && long

package csiaddons

import (
	"os"
	"strings"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// commands returns the commands in a section of a page about CSI-Addons.
func (w *world) commands(page, heading string) []string {
	w.Helper()
	commands, err := guide.Commands("../../docs/csi-addons/"+page, heading)
	w.must(err)
	return commands
}

// follow runs a command of a page in the folder of the repository, as a reader does.
func (w *world) follow(command string) {
	w.Helper()
	w.must(guide.Run(w.Context(), "cd ../..\n"+command, "KUBECONFIG="+w.dir.AdminKubeconfig(),
		"PATH="+w.kubernetes+":"+os.Getenv("PATH"),
		"MAKEFLAGS=")) // `make test-csi-addons` sets it
}

// install follows docs/csi-addons/install.md. Nodes of kwok need no image, so it builds none.
func (w *world) install() {
	w.Helper()
	for _, command := range w.commands("install.md", "Install the controller") {
		var lines []string
		for line := range strings.Lines(command) {
			if !strings.HasPrefix(line, "make image-") && !strings.HasPrefix(line, "podman ") {
				lines = append(lines, line)
			}
		}
		w.follow(strings.Join(lines, ""))
	}
}

// checkGuides runs those commands of the pages for administrators that need no node, and lets the
// API server check the objects of docs/csi-addons/try.md, which needs real nodes.
func (w *world) checkGuides() {
	w.Helper()
	commands := w.commands("install.md", "Add the sidecars")
	w.follow(commands[len(commands)-1])
	for _, command := range w.commands("install.md", "Limit the objects of a driver") {
		w.follow(strings.ReplaceAll(command, "NUMBER", "100"))
	}
	const create, end = "kubectl create ", "\nEND\n"
	const check = create + "--dry-run=server --namespace=" + manilaNamespace + " "
	found := 0
	for _, heading := range []string{"Reclaim space", "Fence the node"} {
		for _, command := range w.commands("try.md", heading) {
			objects, _, given := strings.Cut(command, end)
			if given {
				found++
				w.follow(strings.Replace(objects, create, check, 1) + end)
			}
		}
	}
	if found != 4 {
		w.Errorf("docs/csi-addons/try.md creates objects %d times, want 4", found)
	}
}
