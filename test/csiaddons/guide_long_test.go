//go:build integration && long

package csiaddons

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/hack/images/release"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/docs/guide"
)

// podman only remembers the name of the image of a Dockerfile, and pushes no other one: `make
// test-dockerfiles` builds the image, and nodes of kwok need none.
const podman = `#!/bin/sh
case "$1 $2 $4 $6" in
"build -f -t .") test -f "$3" && echo "$5" >"$0.images" ;;
"push "*) grep -qFx "$2" "$0.images" ;;
*) exit 2 ;;
esac
`

// commands returns the commands in a section of a page about CSI-Addons.
func (w *world) commands(page, heading string) []string {
	w.Helper()
	commands, err := guide.Commands("../../docs/csi-addons/"+page, heading)
	w.must(err)
	return commands
}

// follow runs commands of a page in the folder of the repository, as a reader does.
func (w *world) follow(commands ...string) {
	w.Helper()
	programs := w.TempDir()
	w.must(os.WriteFile(filepath.Join(programs, "podman"), []byte(podman), 0o700))
	for _, command := range commands {
		w.must(guide.Run(w.Context(), "cd ../..\n"+command, "KUBECONFIG="+w.dir.AdminKubeconfig(),
			"PATH="+programs+":"+w.kubernetes+":"+os.Getenv("PATH"),
			"MAKEFLAGS=")) // `make test-csi-addons` sets it
	}
}

// followQuoted runs a command that is in a sentence of docs/csi-addons/install.md.
func (w *world) followQuoted(command string) {
	w.Helper()
	page, err := os.ReadFile("../../docs/csi-addons/install.md")
	w.must(err)
	assert.Check(w, strings.Contains(string(page), "`"+command+"`"),
		"docs/csi-addons/install.md does not contain the command %q", command)
	w.follow(command)
}

// install follows docs/csi-addons/install.md, and returns the folder of the release.
func (w *world) install() (folder string) {
	w.Helper()
	folder = w.TempDir()
	files, err := release.Options{
		Root: "../..", Kubectl: filepath.Join(w.kubernetes, "kubectl"),
	}.Manifests(w.Context(), nil)
	w.must(err)
	for name, text := range files {
		w.must(os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	commands := w.commands("install.md", "Install the controller")
	_, after, _ := strings.Cut(commands[0], "\n") // the first line names the place of the release
	commands[0] = "RELEASE=" + folder + "\n" + after
	w.follow(commands...)
	return folder
}

// leave removes the rest of CSI-Addons with the files of the release.
func (w *world) leave(folder string) {
	w.Helper()
	commands := w.commands("install.md", "Remove CSI-Addons")
	for _, command := range commands[len(commands)-3:] {
		w.follow("RELEASE=" + folder + "\n" + command)
	}
	left, err := guide.Output(w.Context(), "kubectl get crds,namespaces,clusterroles,"+
		"clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings -o name",
		"KUBECONFIG="+w.dir.AdminKubeconfig(), "PATH="+w.kubernetes+":"+os.Getenv("PATH"))
	w.must(err)
	for name := range strings.Lines(left) {
		assert.Check(w, !strings.Contains(name, "csiaddons") && !strings.Contains(name, "csi-addons"),
			"after the removal, %s is left", name)
	}
}

// uninstall releases objects of the CSI-Addons for Ceph, and removes the controller as
// docs/csi-addons/install.md says. The objects of users stay.
func (w *world) uninstall(released client.Object) {
	w.Helper()
	replication := w.leaveReplication()
	w.follow(w.commands("install.md", "Change the controller")...)
	w.awaitGone(released)
	w.awaitGone(replication)
	w.followQuoted("kubectl apply -k assets/csi-addons")
	w.followQuoted("make undeploy")
	w.awaitGone(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: systemNamespace}})
	var jobs v1alpha1.ReclaimSpaceJobList
	w.must(w.client.List(w.Context(), &jobs))
	assert.Check(w, len(jobs.Items) != 0, "make undeploy has deleted the ReclaimSpaceJobs")
}

// leaveReplication deletes an object of a kind that only the CSI-Addons for Ceph process.
func (w *world) leaveReplication() client.Object {
	w.Helper()
	const group, plural, kind = "replication.storage.openshift.io", "volumereplications",
		"VolumeReplication"
	crd := w.ownCRDs()["reclaimspacejobs"]
	removeOurFields(crd)
	crd.Name, crd.Spec.Group = plural+"."+group, group
	crd.Spec.Names = apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind}
	w.createCRD(crd)
	left := object(kind, map[string]any{"target": map[string]any{}})
	left.SetAPIVersion(group + "/v1alpha1")
	left.SetFinalizers([]string{group})
	w.eventually(func(ctx context.Context) (bool, error) { // the API server may not serve it yet
		return w.client.Create(ctx, left) == nil, nil
	})
	w.must(w.client.Delete(w.Context(), left))
	return left
}

// checkGuides runs those commands of the pages for administrators that need no node, and lets the
// API server check the objects of docs/csi-addons/try.md, which needs real nodes.
func (w *world) checkGuides() {
	w.Helper()
	for _, command := range w.commands("install.md", "Add the sidecars") {
		verb := strings.Join(strings.Fields(command)[:2], " ")
		if verb == "kubectl get" || verb == "kubectl apply" { // others need an operator
			w.follow(command)
		}
	}
	for _, command := range w.commands("install.md", "Limit the objects of a driver") {
		w.follow("NAMESPACE=" + manilaNamespace + "\n" + strings.ReplaceAll(command, "NUMBER", "100"))
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
	assert.Check(w, found == 4, "docs/csi-addons/try.md creates objects %d times, want 4", found)
}
