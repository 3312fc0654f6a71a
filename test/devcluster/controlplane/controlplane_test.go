package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStartShowsTheLogOfWhatFailed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		script := "#!/bin/sh\necho the disk of " + name + " is on fire\nexit 1\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Start(t.Context(), Options{
		Binaries: dir,
		Dir:      filepath.Join(dir, "main"),
		Logs:     filepath.Join(dir, "logs"),
		AuditLog: filepath.Join(dir, "audit.log"),
	})
	if err == nil || !strings.Contains(err.Error(), "the disk of etcd is on fire") {
		t.Errorf("got error %v, want the log of etcd in it", err)
	}
}

func TestComponentsHaveUsersOfTheirOwn(t *testing.T) {
	t.Parallel()
	c := &ControlPlane{opts: Options{Dir: "/d"}}
	users := map[string]string{}
	for _, component := range c.components() {
		if other, taken := users[component.user]; taken {
			t.Errorf("%s and %s are the same user to the audit log", component.name, other)
		}
		users[component.user] = component.name
	}
}

func TestKwokStagesCoverNodesAndPods(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"name: node-initialize", "name: pod-ready", "name: pod-delete"} {
		if !strings.Contains(kwokStages(), want) {
			t.Errorf("no stage with %q", want)
		}
	}
}
