package charts

import (
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"
)

// translated returns the values for a file with values of another chart, and the remarks. The
// schema of our chart accepts them.
func translated(t *testing.T, text string) (values map[string]any, remarks string) {
	t.Helper()
	v, err := New()
	assert.NilError(t, err)
	assert.NilError(t, v.AddFile([]byte(text)))
	printed, err := v.YAML()
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(printed, &values), "%s", printed)
	compiler := jsonschema.NewCompiler()
	schema, err := os.Open("../../assets/helm/generated/openstack-csi/values.schema.json")
	assert.NilError(t, err)
	defer schema.Close()
	content, err := jsonschema.UnmarshalJSON(schema)
	assert.NilError(t, err)
	assert.NilError(t, compiler.AddResource("schema.json", content))
	compiled, err := compiler.Compile("schema.json")
	assert.NilError(t, err)
	assert.NilError(t, compiled.Validate(values), "%s", printed)
	return values, strings.Join(v.Remarks(), "\n")
}

func TestFileOfCinder(t *testing.T) {
	t.Parallel()
	values, remarks := translated(t, `
extraLabels: {team: storage}
timeout: 2h
clusterID: "not a label"
pvcAnnotations: true
imagePullSecrets: [{name: login}]
csi:
  attacher: {image: {tag: v1}, extraArgs: "- --password=confidential"}
  provisioner: {topology: "false"}
  unknown: {value: confidential}
  plugin:
    nodePlugin: {kubeletDir: /var/lib/k0s/kubelet, podLabels: {kubernetes.io/a: b}}
    controllerPlugin: {replicas: 3, hostAliases: [{ip: 192.0.2.1, hostnames: [keystone]}]}
    podMonitor: {additionalLabels: {release: mine}}
secret:
  enabled: true
  data:
    cloud.conf: "[Global]\nauth-url=https://k/v3\napplication-credential-id=a\n\
      application-credential-secret=confidential\nca-file=/etc/config/ca.crt\n"
    ca.crt: no certificate
storageClass:
  enabled: false
  custom: |
    ---
    kind: StorageClass
    metadata: {name: sas, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
    reclaimPolicy: Retain
    mountOptions: [noatime]
    parameters: {type: SAS, csi.storage.k8s.io/fstype: xfs, availability: nova}
    ---
    kind: StorageClass
    metadata: {name: csi-cinder-mine}
    parameters: {other: a}
    ---
    kind: StorageClass
    metadata: {name: others}
    parameters: {other: a}
    ---
    kind: VolumeSnapshotClass
    metadata: {name: snapshots}
`)
	labels := map[string]any{"team": "storage"}
	for path, want := range map[string]any{
		"cinder.spec.pods": map[string]any{
			"node": map[string]any{"labels": labels},
			"controller": map[string]any{
				"labels": labels, "replicas": 3.0, "hostAliases": []any{
					map[string]any{"ip": "192.0.2.1", "hostnames": []any{"keystone"}},
				},
			},
		},
		"cinder.spec.classes": []any{
			map[string]any{
				"name": "sas", "type": "SAS", "reclaimPolicy": "Retain", "fsType": "xfs",
				"availability": "nova", "mountOptions": []any{"noatime"},
			},
			map[string]any{"name": "csi-cinder-mine"},
		},
		"cinder.spec.defaultClass": "sas", "cinder.spec.topology": "Disabled",
		"cinder.spec.claimAnnotations": true, "kubeletDir": "/var/lib/k0s/kubelet",
		"images.pullSecrets": []any{"login"}, "monitoring.labels": map[string]any{"release": "mine"},
		"cinder.spec.clusterID": nil, "credentials": nil,
	} {
		assert.Check(t, is.DeepEqual(lookUp(values, path), want), path)
	}
	for _, want := range []string{
		"Cinder: timeout: cinder.spec.sidecars.timeout is not taken over: ",
		"Cinder: clusterID: cinder.spec.clusterID is not taken over: ",
		"Cinder: csi.attacher.image.tag: The image of the release is used", "csi.attacher.extraArgs",
		"Cinder: csi.unknown.value: docs/charts.md knows no such value",
		"Cinder: csi.plugin.nodePlugin.podLabels: cinder.spec.pods.node.labels is not taken over: ",
		"StorageClass others: The parameter other has no equal", "VolumeSnapshotClass snapshots goes",
		"Cinder: storageClass.enabled: The operator creates StorageClasses of its own",
		"login: It is not taken over. ca-file of secret.data contains no PEM certificate",
	} {
		assert.Check(t, is.Contains(remarks, want))
	}
	assert.Check(t, !strings.Contains(remarks, "confidential"), remarks)
}

func TestFileOfNodes(t *testing.T) {
	t.Parallel()
	values, remarks := translated(t, "[Global]\nauth-url = https://k/v3\nregion = a\n"+
		"application-credential-id = a\napplication-credential-secret = b\n[BlockStorage]\n"+
		"ignore-volume-az = true\n[Metadata]\nsearch-order = metadataService\n")
	assert.Check(t, is.DeepEqual(values["cinder"], map[string]any{"spec": map[string]any{
		"blockStorage": map[string]any{"ignoreVolumeAZ": true},
		"metadata":     map[string]any{"searchOrder": []any{"metadataService"}},
	}}))
	assert.Check(t, lookUp(values, "credentials.clouds") != nil, remarks)
}

func TestFileOfManila(t *testing.T) {
	t.Parallel()
	values, remarks := translated(t, `
nodeplugin: {priorityClassName: system-node-critical, nodeplugin: {resources: {limits: {cpu: 1}}}}
csimanila:
  topologyAwarenessEnabled: true
  runtimeConfig: {enabled: true, jsonData: '{"nfs": {"matchExportLocationAddress": "10.0.0.1"}}'}
controllerplugin: {provisioner: {extraCreateMetadata: true}}
shareProtocols:
- {protocolSelector: NFS, fsGroupPolicy: File}
- {protocolSelector: CEPHFS}
`)
	for path, want := range map[string]any{
		"manila.spec.topology": "Enabled", "manila.spec.exportLocations": "10.0.0.1/32",
		"manila.spec.sidecars": map[string]any{"claimMetadata": true}, "cinder": nil,
		"manila.spec.csiDriver": map[string]any{"fsGroupPolicy": "File", "seLinuxMount": false},
		"manila.spec.pods": map[string]any{"node": map[string]any{
			"priorityClassName": "system-node-critical",
			"resources": map[string]any{
				"csi-driver": map[string]any{"limits": map[string]any{"cpu": 1.0}},
			},
		}},
	} {
		assert.Check(t, is.DeepEqual(lookUp(values, path), want), path)
	}
	assert.Check(t, is.Contains(remarks, "CEPHFS is not served here"))
	assert.Check(t, is.Contains(remarks, "login: It is in Secrets that StorageClasses name"))
	const several = `secret: {enabled: true, data: {cloud.conf: "[Global \"a\"]\nregion=b"}}`
	for text, want := range map[string]string{
		"driverName: shares.example.org":               "keep this installation",
		"shareProtocols: [{protocolSelector: CEPHFS}]": "only CephFS",
		"- a":   "no YAML with values of a chart",
		several: "several clouds",
	} {
		v, err := New()
		assert.NilError(t, err)
		assert.Check(t, is.ErrorContains(v.AddFile([]byte(text)), want), text)
	}
}
