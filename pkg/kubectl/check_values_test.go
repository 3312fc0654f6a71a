package kubectl

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// chartObjects returns what the charts of others install, changed, by "Kind name".
func chartObjects(
	t *testing.T, change func(objects map[string]*unstructured.Unstructured),
) []*unstructured.Unstructured {
	t.Helper()
	versions := map[string]string{
		"Deployment": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1", "Secret": "v1",
		"PersistentVolume": "v1", "StorageClass": "storage.k8s.io/v1", "CSIDriver": "storage.k8s.io/v1",
		"VolumeSnapshotContent": "snapshot.storage.k8s.io/v1",
	}
	var all []*unstructured.Unstructured
	decode(t, "testdata/charts.yaml", &all)
	named := map[string]*unstructured.Unstructured{}
	for _, u := range all {
		u.SetAPIVersion(versions[u.GetKind()])
		named[u.GetKind()+" "+u.GetName()] = u
	}
	if change != nil {
		change(named)
	}
	all = nil
	for _, u := range named {
		all = append(all, u)
	}
	return all
}

// record returns the Secret in which Helm records a revision of a release.
func record(
	t *testing.T, name string, revision int, status string, content map[string]any,
) *unstructured.Unstructured {
	t.Helper()
	content["name"], content["version"] = name, revision
	content["info"] = map[string]any{"status": status}
	text, err := json.Marshal(content)
	assert.NilError(t, err)
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err = writer.Write(text)
	assert.NilError(t, err)
	assert.NilError(t, writer.Close())
	once := base64.StdEncoding.EncodeToString(packed.Bytes())
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
		"metadata": map[string]any{
			"namespace": "kube-system", "name": fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, revision),
			"labels": map[string]any{"owner": "helm", "name": name, "status": status},
		},
		"data": map[string]any{"release": base64.StdEncoding.EncodeToString([]byte(once))},
	}}
}

// runOn runs the plugin in a cluster of objects.
func runOn(
	t *testing.T, objects []*unstructured.Unstructured, args ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	var typed []runtime.Object
	for _, u := range objects {
		if kind := u.GroupVersionKind(); !types.Recognizes(kind) {
			types.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			types.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"),
				&unstructured.UnstructuredList{})
		}
		object, err := decoded(types, *u)
		assert.NilError(t, err, u.GetName())
		typed = append(typed, object)
	}
	o := (&scenario{}).options(t)
	connectTo(o, newFake(types).WithRuntimeObjects(typed...).
		WithInterceptorFuncs((&scenario{}).refusals(types)).Build())
	return run(t, o, false, args...)
}

func valueAt(t *testing.T, text, path string) any {
	t.Helper()
	var values any
	assert.NilError(t, yaml.Unmarshal([]byte(text), &values), text)
	for step := range strings.SplitSeq(path, ".") {
		fields, _ := values.(map[string]any)
		values = fields[step]
	}
	return values
}

func TestValuesOfObjectsWithoutARecord(t *testing.T) {
	t.Parallel()
	inline := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"namespace": "a", "name": "web"},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "c"}}, "volumes": []any{
			map[string]any{"name": "v", "csi": map[string]any{"driver": "cinder.csi.openstack.org"}},
		}},
	}}
	code, stdout, stderr := runOn(t, append(chartObjects(t, nil), inline), "check", "--values")
	assert.Check(t, code == exitOK && strings.Contains(stderr,
		"The driver refuses inline volumes (pod a/web): they stay mounted"), stderr)
	for path, want := range map[string]any{
		"cinder.enabled": true, "manila.enabled": true, "cinder.spec.clusterID": "mine",
		"manila.spec.clusterID": nil, "cinder.spec.topology": "Enabled",
		"cinder.spec.logLevel": "Debug", "cinder.spec.sidecars.timeout": "7m",
		"cinder.spec.pods.controller.replicas": 3.0, "manila.spec.pods": map[string]any{
			"node":       map[string]any{"tolerations": []any{}},
			"controller": map[string]any{"tolerations": []any{}},
		},
		"cinder.spec.pods.controller.nodeSelector":      map[string]any{"infra": "a"},
		"cinder.spec.pods.controller.priorityClassName": "system-cluster-critical",
		"cinder.spec.pods.controller.resources": map[string]any{
			"csi-provisioner": map[string]any{"limits": map[string]any{"memory": "301Mi"}},
		},
		"cinder.spec.blockStorage": map[string]any{"nodeVolumeAttachLimit": 20.0},
		"cinder.spec.csiDriver": map[string]any{
			"fsGroupPolicy": "ReadWriteOnceWithFSType", "seLinuxMount": false,
			"volumeLifecycleModes": []any{"Persistent", "Ephemeral"},
		},
		"manila.spec.csiDriver.fsGroupPolicy": "None",
		"cinder.spec.classes": []any{map[string]any{
			"name": "csi-cinder-sc-delete", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
		}},
		"cinder.spec.defaultClass": "csi-cinder-sc-delete", "manila.spec.classes": nil,
		"manila.secrets": []any{"default/old", "default/shares"}, "credentials.cacert": nil,
	} {
		assert.Check(t, is.DeepEqual(valueAt(t, stdout, path), want), path)
	}
	clouds, _ := valueAt(t, stdout, "credentials.clouds").(string)
	assert.Check(t, is.Contains(clouds, `"not for eyes"`))
	comments, _, _ := strings.Cut(stdout, "\ncinder:")
	for _, remarks := range []string{stderr, comments} {
		assert.Check(t, strings.Contains(remarks, "default/old") && !strings.Contains(remarks, "eyes"),
			remarks)
	}
}

// New volumes have zones if the plugin reports them and its provisioner uses them.
func TestTopologyIsThatOfTheProvisioner(t *testing.T) {
	t.Parallel()
	const image, gate = "csi-provisioner:v5.3.0", `,"--feature-gates=Topology=true"`
	const old = "csi-provisioner:v3.6.2"
	for name, test := range map[string]struct {
		image, gate, plugin, want string
	}{
		"old, without the gate":  {old, "", "", "Disabled"},
		"old, with the gate":     {old, `,"--feature-gates=A=true,Topology=true"`, "", "Enabled"},
		"new":                    {"csi-provisioner:v5.0.1", "", "", "Enabled"},
		"new, off":               {image, `,"--feature-gates=Topology=false"`, "", "Disabled"},
		"unknown, without zones": {"csi-provisioner@sha256:a", "", "", "Disabled"},
		"off in the plugin":      {image, gate, `,"--with-topology=false"`, "Disabled"},
	} {
		change := func(all map[string]*unstructured.Unstructured) {
			volume := all["PersistentVolume pv-volume"].Object
			unstructured.RemoveNestedField(volume, "spec", "nodeAffinity")
			pods := all["Deployment openstack-cinder-csi-controllerplugin"]
			text, err := pods.MarshalJSON()
			assert.NilError(t, err)
			const cluster = `"--cluster=$(CLUSTER_NAME)"`
			assert.NilError(t, pods.UnmarshalJSON([]byte(strings.NewReplacer(image, test.image, gate,
				test.gate, cluster, cluster+test.plugin).Replace(string(text)))))
		}
		code, stdout, stderr := runOn(t, chartObjects(t, change), "check", "--values")
		assert.Check(t, is.Equal(code, exitOK), stderr)
		assert.Check(t, is.Equal(valueAt(t, stdout, "cinder.spec.topology"), test.want), name)
	}
}

// Whatever applies a file with values again is named, with the command that suspends it.
func TestFilesNameWhatAppliesThem(t *testing.T) {
	t.Parallel()
	const values = "spec: {chart: openstack-cinder-csi, valuesContent: 'clusterID: a'}\n"
	const unmanage = "Run: kubectl annotate helmcharts.helm.cattle.io a --namespace=b " +
		"helmcharts.helm.cattle.io/unmanaged=true. Do not delete it: that uninstalls the release"
	const release, application = "helm.toolkit.fluxcd.io/v2, kind: HelmRelease",
		"argoproj.io/v1alpha1, kind: Application"
	const kustomized = "kustomize.toolkit.fluxcd.io/v1, kind: Kustomization"
	const proxy = "addons.cluster.x-k8s.io/v1, kind: HelmChartProxy"
	for head, want := range map[string]string{
		"helm.cattle.io/v1, kind: HelmChart":       unmanage,
		"helm.cattle.io/v1, kind: HelmChartConfig": unmanage,
		release:     "Run: flux suspend helmrelease a --namespace=b",
		kustomized:  "Run: flux suspend kustomization a --namespace=b",
		application: "Run: argocd app set a --sync-policy=none",
		proxy:       "! the file: If a program applies it, end that",
	} {
		manifest := "{apiVersion: " + head + ", metadata: {name: a, namespace: b}, " +
			strings.TrimSuffix(values, "\n") + "}"
		for _, file := range []string{manifest, "{kind: List, items: [" + manifest + "]}"} {
			path := filepath.Join(t.TempDir(), "file.yaml")
			assert.NilError(t, os.WriteFile(path, []byte(file), 0o600))
			code, _, stderr := runOn(t, nil, "check", "--values", "-f", path)
			assert.Check(t, is.Equal(code, exitOK), stderr)
			assert.Check(t, is.Contains(strings.Join(strings.Fields(stderr), " "), want), file)
		}
	}
}

// The operator creates no second default class.
func TestCheckOfAFileKeepsTheDefaultClass(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{}": "false", "{defaultClass: standard-csi}": "true",
	} {
		path := filepath.Join(t.TempDir(), "driver.yaml")
		assert.NilError(t, os.WriteFile(path, []byte("apiVersion: csi.openstack.org/v1alpha1\n"+
			"kind: CinderDriver\nmetadata: {name: cinder.csi.openstack.org}\n"+
			"spec: "+spec+"\n"), 0o600))
		_, stdout, stderr := runOn(t, chartObjects(t, nil), "check", "-f", path)
		assert.Check(t, is.Contains(stdout,
			`+    storageclass.kubernetes.io/is-default-class: "`+want), stderr)
	}
}

// The login of one driver is not that of both.
func TestValuesContainNoLoginUnlessBothAreKnown(t *testing.T) {
	t.Parallel()
	for want, conf := range map[string]string{
		"trust-id: trusts are not supported": "[Global]\nauth-url=https://k\ntrust-id=t\n",
		"or does not exist":                  "",
	} {
		objects := chartObjects(t, func(objects map[string]*unstructured.Unstructured) {
			data := map[string]any{"cloud.conf": base64.StdEncoding.EncodeToString([]byte(conf))}
			if conf == "" {
				data = nil
			}
			_ = unstructured.SetNestedMap(objects["Secret cloud-config"].Object, data, "data")
		})
		code, stdout, stderr := runOn(t, objects, "check", "--values")
		got := strings.Join(strings.Fields(stderr), " ")
		assert.Check(t, code == exitOK && strings.Contains(got, want), got)
		assert.Check(t, is.Equal(valueAt(t, stdout, "credentials"), nil), stdout)
	}
}

// What a workload has beyond the manifests is translated, or named.
func TestValuesNameWhatElseWorkloadsHave(t *testing.T) {
	t.Parallel()
	cloud, _ := newCloud(t, simulator.Config{TLS: true})
	objects := chartObjects(t, func(objects map[string]*unstructured.Unstructured) {
		pods := objects["Deployment openstack-cinder-csi-controllerplugin"]
		pods.SetAnnotations(nil)
		pods.SetLabels(map[string]string{"kubermatic-addon": "csi"})
		containers, _, _ := unstructured.NestedSlice(pods.Object, "spec", "template", "spec",
			"containers")
		plugin := containers[1].(map[string]any)
		plugin["env"] = append(plugin["env"].([]any),
			map[string]any{"name": "SSL_CERT_FILE", "value": "/etc/config/ca.pem"},
			map[string]any{"name": "HTTPS_PROXY", "value": "http://proxy:3128"},
			map[string]any{"name": "OS_DEBUG", "value": "1"})
		plugin["volumeMounts"] = append(plugin["volumeMounts"].([]any),
			map[string]any{"name": "extra", "mountPath": "/extra"})
		_ = unstructured.SetNestedSlice(pods.Object, containers, "spec", "template", "spec",
			"containers")
		_ = unstructured.SetNestedField(objects["Secret cloud-config"].Object,
			base64.StdEncoding.EncodeToString(cloud.CA()), "data", "ca.pem")
		objects["DaemonSet openstack-cinder-csi-nodeplugin"].SetAnnotations(nil)
	})
	code, stdout, stderr := runOn(t, objects, "check", "--values")
	got := strings.Join(strings.Fields(stderr), " ")
	assert.Check(t, is.Equal(code, exitOK), stderr)
	assert.Check(t, is.Equal(valueAt(t, stdout, "proxy.https"), "http://proxy:3128"))
	assert.Check(t, is.Equal(valueAt(t, stdout, "credentials.cacert"), string(cloud.CA())))
	for _, want := range []string{
		"plugin: The values contain no equal of its folder /extra, variable OS_DEBUG",
		"(kubermatic-addon) say that another program may have applied it",
	} {
		assert.Check(t, is.Contains(got, want))
	}
}

// Each program that contains Helm has a name of its own as the manager of fields.
func TestEditsAreThoseOfOthersThanTheInstaller(t *testing.T) {
	t.Parallel()
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	pod := func(fields string) string { return `"f:spec":{"f:template":{"f:spec":{` + fields + `}}}` }
	installed := `{"f:metadata":{"f:annotations":{"f:` + releaseName + `":{}}},` +
		pod(`"f:containers":{}`) + `}`
	edit := "{" + pod(`"f:nodeSelector":{}`) + "}"
	for _, installer := range []string{"helm", "terraform-provider-helm_v3.0.2", "helm-controller"} {
		w := workload{Object: &appsv1.DaemonSet{}}
		w.SetManagedFields([]metav1.ManagedFieldsEntry{entry(installer, installed)})
		assert.Check(t, is.Len(w.edits(), 0), installer)
		w.SetManagedFields(append(w.GetManagedFields(), entry("kubectl-patch", edit)))
		assert.Check(t, is.DeepEqual(w.edits(), []string{"nodeSelector"}), installer)
	}
}

// withRecords returns the objects with the records of the release of Cinder.
func withRecords(t *testing.T, manifest string) []*unstructured.Unstructured {
	t.Helper()
	chart := map[string]any{
		"metadata": map[string]any{"name": "openstack-cinder-csi", "version": "2.36.0"},
		"values":   map[string]any{"clusterID": "kubernetes", "pvcAnnotations": false, "timeout": "3m"},
	}
	attacher := map[string]any{"attacher": map[string]any{"extraArgs": "- --a=secretive"}}
	return append(chartObjects(t, nil),
		record(t, "cinder-csi", 1, "superseded", map[string]any{"chart": chart}),
		record(t, "cinder-csi", 10, "deployed", map[string]any{
			"chart": chart, "manifest": manifest,
			"config": map[string]any{"clusterID": "old", "pvcAnnotations": true, "csi": attacher},
		}),
		record(t, "cinder-csi", 11, "failed", map[string]any{"chart": chart}))
}

func TestValuesOfARelease(t *testing.T) {
	t.Parallel()
	const edited = "---\nkind: Deployment\nmetadata: {name: openstack-cinder-csi-controllerplugin}\n" +
		"spec: {template: {spec: {containers: [{name: cinder-csi-plugin, image: a, env: " +
		"[{name: CLUSTER_NAME, value: old}]}]}}}\n---\nkind: CSIDriver\n" +
		"metadata: {name: cinder.csi.openstack.org}\n" +
		"spec: {attachRequired: true}\n"
	code, stdout, stderr := runOn(t, withRecords(t, edited), "check", "--values")
	assert.Check(t, is.Equal(code, exitOK), stderr)
	for path, want := range map[string]any{
		"cinder.spec.clusterID": "mine", "cinder.spec.claimAnnotations": true,
		"cinder.spec.sidecars":              map[string]any{"claimMetadata": true},
		"cinder.spec.pods.controller":       map[string]any{"tolerations": []any{}},
		"cinder.spec.pods.node.tolerations": nil,
	} {
		assert.Check(t, is.DeepEqual(valueAt(t, stdout, path), want), path)
	}
	got := strings.Join(strings.Fields(stderr), " ")
	for _, want := range []string{
		"! Cinder: csi.attacher.extraArgs (a): The operator sets the flags",
		"revision 10 of Helm",
		"Deployment openstack-cinder-csi-controllerplugin: It differs from the release at containers" +
			"[cinder-csi-plugin].env[CLOUD_CONFIG], containers[cinder-csi-plugin].env[CLUSTER_NAME].value, ",
		"Do not uninstall Helm release cinder-csi: docs/from-charts.md",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	assert.Check(t, !strings.Contains(got, "secretive") && !strings.Contains(got, "CSIDriver"), got)
}

func TestCheckNamesCharts(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runOn(t, withRecords(t, ""), "check")
	assert.Check(t, is.Equal(code, exitFailed), stderr)
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"Helm release kube-system/cinder-csi (chart openstack-cinder-csi-2.36.0)",
		"serves driver nfs.manila.csi.openstack.org: Helm release kube-system/manila-csi",
		"StatefulSet kube-system/manila-csi-openstack-manila-csi-controllerplugin",
		"name it: 1, of which 1 are for nodes of a zone", "--values >values.yaml, and follow http",
		"ok its StorageClasses: csi-cinder-sc-delete, fast",
		"name the Secrets default/old, default/shares",
		"ok volumes of Cinder have the cluster ID mine", "! no volume of Manila has a cluster ID",
		"check --values has remarks about Cinder, Cinder: csi.attacher.extraArgs",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	assert.Check(t, !strings.Contains(got, "eyes"), got)
}

// The nodes of a shoot of Gardener run what its control plane, in another cluster, installs. Marks
// of Gardener that are for everybody say nothing.
func TestCheckNamesGardener(t *testing.T) {
	t.Parallel()
	const nodes, owner = "DaemonSet openstack-cinder-csi-nodeplugin", "Gardener manages " +
		"DaemonSet kube-system/openstack-cinder-csi-nodeplugin, and would restore it: keep its drivers"
	for mark, is := range map[string]bool{
		"resources.gardener.cloud/origin": true, "node.gardener.cloud/critical-component": false,
	} {
		_, stdout, stderr := runOn(t, chartObjects(t, func(all map[string]*unstructured.Unstructured) {
			all[nodes].SetAnnotations(map[string]string{mark: "shoot--a--b/extension-controlplane-shoot"})
			delete(all, "Deployment openstack-cinder-csi-controllerplugin")
		}), "check")
		got := strings.Join(strings.Fields(stdout), " ")
		assert.Check(t, strings.Contains(got, owner) == is, "%s%s", got, stderr)
	}
}

func TestCheckNamesChartsBesideOurs(t *testing.T) {
	t.Parallel()
	ours := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "csi.openstack.org/v1alpha1", "kind": "ManilaDriver",
		"metadata": map[string]any{"name": "nfs.manila.csi.openstack.org"},
	}}
	objects := append(chartObjects(t, func(objects map[string]*unstructured.Unstructured) {
		for name, u := range objects {
			if strings.Contains(name, "cinder") && u.GetKind() == "Deployment" {
				u.SetLabels(map[string]string{"helm.toolkit.fluxcd.io/name": "cinder"})
			}
		}
	}), ours)
	code, stdout, stderr := runOn(t, objects, "check")
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"another installation serves driver cinder.csi.openstack.org: Helm release kube-system/c",
		"another installation serves driver nfs.manila.csi.openstack.org: Helm release kube-system/m",
		"First suspend HelmRelease cinder of Flux, which applies it. Then run: kubectl openstack-csi",
	} {
		assert.Check(t, code == exitFailed && strings.Contains(got, want), "%s%s", stdout, stderr)
	}
	code, _, stderr = runOn(t, objects, "check", "--values")
	assert.Check(t, code == exitOK && strings.Contains(stderr, "HelmRelease cinder of Flux applies"),
		stderr)
}

// What cannot be replaced is refused in one sentence, and nothing else is printed.
func TestValuesAreRefused(t *testing.T) {
	t.Parallel()
	const nodes, pods = "DaemonSet openstack-cinder-csi-nodeplugin",
		"Deployment openstack-cinder-csi-controllerplugin"
	type objects = map[string]*unstructured.Unstructured
	replace := func(from, to string) func(objects) {
		return func(all objects) {
			for _, u := range all {
				text, err := u.MarshalJSON()
				assert.NilError(t, err)
				assert.NilError(t, u.UnmarshalJSON(bytes.ReplaceAll(text, []byte(from), []byte(to))))
			}
		}
	}
	const nfs = "nfs.manila.csi.openstack.org"
	for want, change := range map[string]func(objects){
		"no workload serves": func(all objects) { clear(all) },
		"Cinder: several installations serve driver cinder.csi": func(all objects) {
			all["other"] = all[nodes].DeepCopy()
			all["other"].SetNamespace("other")
		},
		"Cinder: there is only a part of an installation. ": func(all objects) { delete(all, pods) },
		// The controller of a shoot is in another cluster.
		"Cinder: Gardener manages DaemonSet kube-system/openstack": func(all objects) {
			all[nodes].SetAnnotations(map[string]string{
				"resources.gardener.cloud/origin": "shoot--a--b/extension-controlplane-shoot",
			})
			delete(all, pods)
		},
		"Cinder: Addon cinder manages Deployment": func(all objects) {
			_ = unstructured.SetNestedSlice(all[pods].Object, []any{map[string]any{
				"apiVersion": "a/v1", "kind": "Addon", "name": "cinder", "uid": "u", "controller": true,
			}}, "metadata", "ownerReferences")
		},
		"newer than ours, v1.36: use a later release": replace(":v1.36.0", ":v1.37.2"),
		"driver v1.19: first upgrade its chart to":    replace(":v1.36.0", ":v1.19.0"),
		"Manila: it serves only CephFS":               replace(nfs, "cephfs.manila.csi.openstack.org"),
		"Manila: the driver has the name shares.example.org, and PersistentVolumes keep it": replace(
			nfs, "shares.example.org"),
		`names several clouds ([Global], [Global "b"]), and a driver`: func(all objects) {
			conf := base64.StdEncoding.EncodeToString([]byte("[Global]\n[Global \"b\"]\nregion=a\n"))
			_ = unstructured.SetNestedField(all["Secret cloud-config"].Object, conf, "data", "cloud.conf")
		},
		"one: Secret default/shares contains another one, which differs in auth.application": func(
			all objects,
		) {
			all["old"] = all["Secret shares"].DeepCopy()
			all["old"].SetName("old")
			_ = unstructured.SetNestedField(all["old"].Object, "b3RoZXI=", "data",
				"os-applicationCredentialID")
		},
		"openstack-manila-csi-2.36.0) also serves driver cephfs.manila.csi.openstack.org, which": func(
			all objects,
		) {
			for name, u := range maps.Clone(all) {
				text, err := u.MarshalJSON()
				assert.NilError(t, err)
				if !strings.Contains(string(text), nfs) {
					continue
				}
				all["cephfs"+name] = &unstructured.Unstructured{}
				assert.NilError(t, all["cephfs"+name].UnmarshalJSON(bytes.ReplaceAll(text, []byte(nfs),
					[]byte("cephfs.manila.csi.openstack.org"))))
				all["cephfs"+name].SetName("cephfs-" + u.GetName())
			}
		},
		"HelmChart kube-system/cinder-csi of k3s or RKE2 would install Helm release cinder-csi": func(
			all objects,
		) {
			all["definition"] = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
				"metadata": map[string]any{"name": "helmcharts.helm.cattle.io"},
				"spec": map[string]any{
					"group": "helm.cattle.io", "names": map[string]any{"kind": "HelmChart"},
				},
			}}
			all["chart"] = &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "helm.cattle.io/v1", "kind": "HelmChart",
				"metadata": map[string]any{"namespace": "kube-system", "name": "cinder-csi"},
			}}
		},
	} {
		code, stdout, stderr := runOn(t, chartObjects(t, change), "check", "--values")
		assert.Check(t, code == exitFailed && stdout == "" && strings.Contains(stderr, want) &&
			strings.Count(stderr, "\n") == 1, "want %s: exit code %d\n%s%s", want, code, stdout, stderr)
	}
}
