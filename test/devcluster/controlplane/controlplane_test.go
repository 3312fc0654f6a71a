package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
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

func TestAdmitAddsNamesOfNewDrivers(t *testing.T) {
	t.Parallel()
	const crd = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: NAME},
  spec: {group: example.com, scope: Cluster, names: {kind: X, plural: x}, versions: [{name: v1,
  schema: {openAPIV3Schema: {type: object, properties: {metadata: {type: object,
  properties: {name: {type: string, enum: [ENUM]}}}}}}}]}}`
	read := func(t *testing.T, name, enum string) *envtest.CRDInstallOptions {
		t.Helper()
		file := filepath.Join(t.TempDir(), "crd.yaml")
		content := strings.NewReplacer("NAME", name, "ENUM", enum).Replace(crd)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		options := &envtest.CRDInstallOptions{Paths: []string{file}}
		if err := envtest.ReadCRDFiles(options); err != nil {
			t.Fatal(err)
		}
		return options
	}
	for name, want := range map[string]string{
		clusterCSIDrivers: `"a" "b" "c"`, "others.example.com": `"a" "b"`,
	} {
		options := read(t, name, "a, b")
		if err := admit(options, []string{"b", "c", "c"}); err != nil {
			t.Fatal(err)
		}
		var got []string
		properties := options.CRDs[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties
		for _, value := range properties["metadata"].Properties["name"].Enum {
			got = append(got, string(value.Raw))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s admits %q, want %s", name, got, want)
		}
	}
	if err := admit(read(t, clusterCSIDrivers, ""), []string{"c"}); err == nil {
		t.Error("a CRD without a list of names is accepted: " +
			"nobody would see that OpenShift's has changed")
	}
}
