package charts

import (
	"cmp"
	"encoding/base64"
	"encoding/pem"
	"maps"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/api"
	valuestest "github.com/openstack-csi/csi-operator/test/values"
)

// translated returns the values for a file with values of another chart, and the remarks. The
// schema of our chart accepts them.
func translated(t *testing.T, text string) (values map[string]any, remarks string) {
	t.Helper()
	values, remarks = unchecked(t, text)
	compiler := jsonschema.NewCompiler()
	schema, err := os.Open("../../assets/helm/generated/openstack-csi/values.schema.json")
	assert.NilError(t, err)
	defer schema.Close()
	content, err := jsonschema.UnmarshalJSON(schema)
	assert.NilError(t, err)
	assert.NilError(t, compiler.AddResource("schema.json", content))
	compiled, err := compiler.Compile("schema.json")
	assert.NilError(t, err)
	assert.NilError(t, compiled.Validate(values), "%v", values)
	return values, remarks
}

// unchecked is translated without our schema.
func unchecked(t *testing.T, text string) (values map[string]any, remarks string) {
	t.Helper()
	v, err := New()
	assert.NilError(t, err)
	assert.NilError(t, v.AddFile([]byte(text)), text)
	printed, err := v.YAML()
	assert.NilError(t, err)
	assert.NilError(t, yaml.Unmarshal(printed, &values), "%s", printed)
	return values, strings.Join(v.Remarks(), "\n")
}

const valuesOfCinder = `
extraLabels: {team: storage}
timeout: 2h
clusterID: "not a label"
pvcAnnotations: true
imagePullSecrets: [{name: login}]
csi:
  attacher:
    image: {tag: v1}
    extraArgs: "- --password=confidential\n- --kube-api-qps=50"
    resources: {limits: , requests: {cpu: 20m}}
  provisioner:
    topology: "false"
    extraArgs: {default-fstype: xfs, leader-election-retry-period: 1s}
  unknown: {value: confidential}
  plugin:
    extraEnv:
    - {name: https_proxy, value: http://confidential@proxy}
    - {name: HTTPS_PROXY, value: http://confidential@proxy}
    - {name: DEBUG, value: confidential}
    nodePlugin:
      kubeletDir: /var/lib/k0s/kubelet
      podLabels: {kubernetes.io/a: b}
      tolerations: []
    controllerPlugin:
      replicas: 3
      hostAliases: [{ip: 192.0.2.1, hostnames: [keystone]}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: zone
            labelSelector:
              matchExpressions: [{key: app, operator: In, values: [openstack-cinder-csi]}]
    podMonitor: {additionalLabels: {release: mine}}
secret:
  enabled: true
  data:
    cloud.conf: "[Global]\nauth-url=https://k/v3\napplication-credential-id=a\n\
      application-credential-secret=confidential\nca-file=/etc/config/ca.crt\n"
    ca.crt: no certificate
storageClass:
  enabled: false
  delete: {parameters: {csi.storage.k8s.io/fstype: xfs}}
  custom: |
    ---
    kind: StorageClass
    metadata: {name: sas, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
    reclaimPolicy: Retain
    deletionPolicy: Delete
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
    kind: StorageClass
    metadata: {name: zoned}
    provisioner: cinder.csi.openstack.org
    allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]
    ---
    kind: StorageClass
    metadata: {name: nfs}
    provisioner: nfs.csi.k8s.io
    parameters: {share: /a}
    ---
    kind: VolumeSnapshotClass
    metadata:
      name: snapshots
      annotations: {snapshot.storage.kubernetes.io/is-default-class: 'true'}
`

func TestFileOfCinder(t *testing.T) {
	t.Parallel()
	values, remarks := translated(t, valuesOfCinder)
	labels := map[string]any{"team": "storage"}
	for path, want := range map[string]any{
		"cinder.spec.pods": map[string]any{
			"node": map[string]any{"labels": labels, "tolerations": []any{}},
			"controller": map[string]any{
				"labels": labels, "replicas": 3.0, "hostAliases": []any{
					map[string]any{"ip": "192.0.2.1", "hostnames": []any{"keystone"}},
				},
				"affinity": map[string]any{"podAntiAffinity": map[string]any{
					"requiredDuringSchedulingIgnoredDuringExecution": []any{map[string]any{
						"topologyKey": "zone", "labelSelector": map[string]any{"matchLabels": map[string]any{
							"app": "openstack-cinder-csi-driver-controller",
						}},
					}},
				}},
				"resources": map[string]any{"csi-attacher": map[string]any{
					"requests": map[string]any{"cpu": "20m"},
				}},
				"tolerations": []any{}, // the default of the chart
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
		"proxy":                 map[string]any{"https": "http://confidential@proxy"},
		"cinder.spec.class":     map[string]any{"fsType": "xfs"},
		"cinder.spec.sidecars":  map[string]any{"claimMetadata": true, "kubeAPIQPS": 50.0},
		"cinder.spec.clusterID": nil, "credentials": nil,
	} {
		assert.Check(t, is.DeepEqual(lookUp(values, path), want), path)
	}
	for _, want := range []string{
		"Cinder: timeout: cinder.spec.sidecars.timeout is not taken over: ",
		"Cinder: clusterID: cinder.spec.clusterID is not taken over: ",
		"Cinder: csi.attacher.image.tag: The image of the release is used",
		"Cinder: csi.attacher.extraArgs (password), " +
			"Cinder: csi.provisioner.extraArgs (leader-election-retry-period): The operator sets the flags",
		"Cinder: csi.provisioner.extraArgs: default-fstype: It becomes cinder.spec.class.fsType, for all",
		"Cinder: csi.plugin.extraEnv (DEBUG): The operator sets the environment",
		"Cinder: csi.unknown.value: docs/charts.md knows no such value",
		"Cinder: csi.plugin.nodePlugin.podLabels: cinder.spec.pods.node.labels is not taken over: ",
		"StorageClass others: The parameter other has no equal",
		"parameters.csi.storage.k8s.io/fstype: docs/charts.md knows no such value. Its equal is fsType",
		"StorageClass sas: Kubernetes ignores its deletionPolicy, which is no field of a StorageClass. " +
			"Its reclaimPolicy is Retain",
		"VolumeSnapshotClass snapshots: It stays yours",
		"VolumeSnapshotClass snapshots, standard-csi of the operator: If several are the default",
		"StorageClass zoned: Its allowedTopologies have no equal, so the class stays yours: keep it",
		"StorageClass nfs: It is of driver nfs.csi.k8s.io, so the class stays yours: keep it",
		"Cinder: storageClass.enabled: The operator creates the StorageClass standard-csi beside yours",
		"Cinder: csi.plugin.controllerPlugin.affinity: Where it names pods of the other chart",
		"login: The values contain none, and no CA: ca-file of [Global] of secret.data contains no PEM",
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
	assert.Check(t, is.DeepEqual(values["cinder"], map[string]any{
		"enabled": true, "spec": map[string]any{
			"blockStorage": map[string]any{"ignoreVolumeAZ": true},
			"metadata":     map[string]any{"searchOrder": []any{"metadataService"}},
		},
	}))
	assert.Check(t, lookUp(values, "credentials.clouds") != nil, remarks)
	assert.Check(t, is.Contains(remarks, "Cinder: The file cannot show cluster ID, topology, "))
	const login = "auth-url=https://k/v3\napplication-credential-id=a\n" +
		"application-credential-secret=b\n"
	for text, want := range map[string]string{
		"[Global \"a\"]\n" + login:                 "name a Secret with cloud: a",
		"[Global]\n" + login + "region = a#b\n":    "region: The driver reads the value up to #, which",
		"[Global]\n" + login + "region =a;b # c\n": "region: The driver reads the value up to ;, which",
		// Keystone asks for no domain of a user or project by ID.
		"[Global]\n" + login + "tenant-name=t\n": "the login is the same without tenant-name",
		"[Global]\nauth-url=https://k\nusername=u\npassword=p\ntenant-id=t\n": "[Global] of the file " +
			"is incomplete: it lacks user-domain-name or user-domain-id. For a missing domain, the",
		"[Global]\nauth-url=https://k\nuser-id=u\npassword=p\ntenant-name=t\n": "it lacks " +
			"tenant-domain-name or tenant-domain-id. For a missing domain, the openstack command uses the",
		"[Global]\ntls-insecure=true\n" + login: "Write the CA of the cloud into credentials.cacert " +
			"and remove verify",
		"[Global]\nuse-clouds=true\nclouds-file=/etc/c.yaml\ncloud=mine\nregion=b\n": "the login is " +
			"the entry mine of /etc/c.yaml, and this file is on the nodes. Copy it into a clouds.yaml as " +
			"entry openstack, and set there what overrides it. None of its settings is taken over: region, ",
		"secret: {enabled: true, data: {other: '[Global]'}}\nstorageClass: {enabled: false}": "The " +
			"login is that of key other. The driver reads cloud.conf",
	} {
		values, remarks = translated(t, text)
		assert.Check(t, is.Contains(remarks, want))
		assert.Check(t, strings.Contains(text, login) == (lookUp(values, "credentials.clouds") != nil))
	}
	assert.Check(t, is.Equal(lookUp(values, "cinder.enabled"), true))
}

// settings returns all settings that the driver of Cinder reads, with a value that is no default.
func settings(t *testing.T) (lines map[string][]string) {
	t.Helper()
	values := map[string]string{
		"tls-insecure": "true", "ca-file": "/ca.pem", "os-endpoint-type": "internal",
		"clouds-file": "/clouds.yaml", "cloud": "mine", "search-order": "configDrive,other",
		"node-volume-attach-limit": "300",
	}
	lines = map[string][]string{}
	for section, of := range map[string]reflect.Type{
		"Global": reflect.TypeFor[options](), "BlockStorage": reflect.TypeFor[api.BlockStorage](),
		"Metadata": reflect.TypeFor[conf]().Field(2).Type,
	} {
		for f := range of.Fields() {
			name := f.Tag.Get("gcfg")
			usual := map[bool]string{true: "true", false: "of-" + name}[f.Type.Kind() == reflect.Bool]
			lines[section] = append(lines[section], name+" = "+cmp.Or(values[name], usual))
		}
	}
	return lines
}

// Whichever settings there are, each one changes the values, or a remark names it.
func TestNoSettingIsDroppedSilently(t *testing.T) {
	t.Parallel()
	lines := settings(t)
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	translate := func(chosen map[string][]string) (any, string) {
		text := ""
		for section, lines := range chosen {
			text += "[" + section + "]\n" + strings.Join(lines, "\n") + "\n"
		}
		v, err := New()
		assert.NilError(t, err)
		assert.NilError(t, v.AddConf("it", [][]byte{[]byte(text)}, func(path string) ([]byte, error) {
			return map[string][]byte{
				"/ca.pem": ca, "/clouds.yaml": []byte("clouds: {mine: {auth: {auth_url: https://k/v3}}}"),
			}[path], nil
		}))
		return v.content, strings.Join(v.Remarks(), "\n")
	}
	bases := []string{
		"", "auth-url region application-credential-id application-credential-secret",
		"auth-url region username password user-domain-id tenant-id",
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same settings in each run
	for n := range 30 {
		chosen := map[string][]string{}
		share, base := random.Float64(), strings.Fields(bases[n%len(bases)])
		for section, all := range lines {
			for _, line := range all {
				name, _, _ := strings.Cut(line, " ")
				if random.Float64() < share*share || slices.Contains(base, name) {
					chosen[section] = append(chosen[section], line)
				}
			}
		}
		values, remarks := translate(chosen)
		for section, all := range chosen {
			for i, line := range all {
				name, _, _ := strings.Cut(line, " ")
				others := maps.Clone(chosen)
				others[section] = slices.Delete(slices.Clone(all), i, i+1)
				less, _ := translate(others)
				isNamed := regexp.MustCompile(`[^\w-]` + name + `([^\w-]|$)`).MatchString(remarks)
				assert.Check(t, isNamed || !reflect.DeepEqual(values, less), "%s of %v:\n%s", name, chosen,
					remarks)
			}
		}
	}
}

// The volumes in the values say which file of the pods is which, and which one is missing.
func TestFilesAreThoseOfMountedVolumes(t *testing.T) {
	t.Parallel()
	const values = `
csi:
  plugin:
    volumes: [{name: cas, hostPath: {path: /srv/cas}}, {name: other, secret: {secretName: x}}]
    volumeMounts:
    - {name: cloud-config, mountPath: /etc/kubernetes/config/}
    - {name: cas, mountPath: /etc/cas}
    - {name: other, mountPath: /etc/other}
secret:
  enabled: true
  filename: FILE
  data:
    cloud.conf: "[Global]\nauth-url=https://k/v3\nregion=a\napplication-credential-id=b\n\
      application-credential-secret=c\ntrust-id=TRUST\nca-file=CA\n"
`
	const refused, missing = "trusts are not supported", "The driver reads "
	for want, in := range map[string][3]string{
		"": {"config/cloud.conf", "", ""},
		"The driver reads cloud.conf, and the file is in the image, or does not exist": {"cloud.conf"},
		"the CA is the file /etc/cas/a.pem, which is not readable here (it is the file " +
			"/srv/cas/a.pem on the nodes): add it": {"config/cloud.conf", "t", "/etc/cas/a.pem"},
		"/etc/other/a.pem, which is not readable here (it is in volume other, and not in the": {
			"config/cloud.conf", "t", "/etc/other/a.pem",
		},
	} {
		_, remarks := unchecked(t, strings.NewReplacer("FILE", in[0], "TRUST", in[1], "CA", in[2]).
			Replace(values))
		assert.Check(t, is.Contains(remarks, want))
		assert.Check(t, is.Equal(strings.Contains(remarks, refused), in[1] != ""), remarks)
		assert.Check(t, is.Equal(strings.Contains(remarks, missing), in[0] == "cloud.conf"), remarks)
	}
}

func TestFilesAreThoseOfUsualVolumes(t *testing.T) {
	t.Parallel()
	_, remarks := unchecked(t, `secret: {enabled: true, data: {cloud.conf: "[Global]\nca-file=`+
		`/etc/cacert/a.pem"}}`)
	assert.Check(t, is.Contains(remarks, "(it is the file /etc/cacert/a.pem on the nodes)"))
}

func TestFlagAgainstTopology(t *testing.T) {
	t.Parallel()
	values, _ := translated(t, "csi: {provisioner: {topology: 'true'}, plugin: {nodePlugin: "+
		"{extraArgs: '- --with-topology=false'}}}")
	assert.Check(t, is.Equal(lookUp(values, "cinder.spec.topology"), "Disabled"))
}

// A login is also in the manifest of a Secret.
func TestFileOfASecret(t *testing.T) {
	t.Parallel()
	const conf = "[Global]\nauth-url = https://k/v3\nregion = a\napplication-credential-id = b\n" +
		"application-credential-secret = c\nca-file = /etc/config/ca.pem\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(conf))
	for manifest, enabled := range map[string]string{
		"stringData:\n  cloud.conf: |\n    " + strings.ReplaceAll(conf, "\n", "\n    "): "cinder",
		"data: {cloud-config: " + encoded + "}":                                         "cinder",
		"stringData: {os-authURL: https://k/v3, os-region: a, os-applicationCredentialID: b, " +
			"os-applicationCredentialSecret: c}": "manila",
	} {
		values, remarks := translated(t, "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n"+manifest)
		clouds, _ := lookUp(values, "credentials.clouds").(string)
		assert.Check(t, is.Contains(clouds, `"region_name": "a"`), manifest)
		assert.Check(t, is.Equal(lookUp(values, enabled+".enabled"), true), manifest)
		assert.Check(t, is.Contains(remarks, "The file cannot show cluster ID"))
		assert.Check(t, enabled == "manila" || strings.Contains(remarks, "the CA is the file"), remarks)
	}
}

// Other Secrets, and values of a release, stand beside it.
func TestFileOfASecretBesideOthers(t *testing.T) {
	t.Parallel()
	const login = "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\nstringData:\n  cloud.conf: |\n" +
		"    [Global]\n    auth-url = https://k/v3\n    region = a\n    application-credential-id = b\n" +
		"    application-credential-secret = c\n"
	const other = "apiVersion: v1\nkind: Secret\nmetadata: {name: y}\nstringData: {password: z}\n"
	const release = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {name: a}\n" +
		"spec:\n  chart: {spec: {chart: openstack-cinder-csi}}\n  values: {clusterID: mine}\n"
	for _, file := range [][]string{
		{login, other, release}, {other, release, login}, {release, login},
	} {
		values, remarks := translated(t, strings.Join(file, "---\n"))
		assert.Check(t, !strings.Contains(remarks, "cannot show"), remarks)
		clouds, _ := lookUp(values, "credentials.clouds").(string)
		assert.Check(t, is.Contains(clouds, `"region_name": "a"`))
		assert.Check(t, is.Equal(lookUp(values, "cinder.spec.clusterID"), "mine"))
	}
	v, err := New()
	assert.NilError(t, err)
	assert.ErrorContains(t, v.AddFile([]byte(other)), "is a manifest of kind Secret")
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
		"manila.spec.pods": map[string]any{
			"controller": map[string]any{"tolerations": []any{}},
			"node": map[string]any{
				"priorityClassName": "system-node-critical", "tolerations": []any{},
				"resources": map[string]any{
					"csi-driver": map[string]any{"limits": map[string]any{"cpu": 1.0}},
				},
			},
		},
	} {
		assert.Check(t, is.DeepEqual(lookUp(values, path), want), path)
	}
	assert.Check(t, is.Contains(remarks, "CEPHFS is not served here"))
	assert.Check(t, is.Contains(remarks, "no CA: it is in Secrets that StorageClasses name"))
	const several = `secret: {enabled: true, data: {cloud.conf: "[Global]\n[Global \"a\"]\nregion=b"}}
storageClass: {custom: '{kind: StorageClass, metadata: {name: c}, parameters: {cloud: a}}'}`
	for text, want := range map[string]string{
		"driverName: shares.example.org":                                    "keep this installation",
		"shareProtocols: [{protocolSelector: CEPHFS}]":                      "only CephFS",
		"kind: a\nb: {c: d}":                                                "is a manifest of kind a",
		"cloudConfig: {global: {a: b}}\ntolerations: []\nsecret: {name: a}": "contains no values",
		"- a":                             "contains no values",
		"a: [":                            "is not valid YAML at line 1",
		"clusterID: a\n---\nclusterID: b": "several releases for Cinder",
		several: `several clouds ([Global], [Global "a"]), and a driver here serves one: keep the ` +
			"other chart while volumes are in several. StorageClass c names a",
	} {
		v, err := New()
		assert.NilError(t, err)
		assert.Check(t, is.ErrorContains(v.AddFile([]byte(text)), want), text)
	}
}

// Whatever tool reads a file, the values in it are those that a file of their own would contain.
func TestValuesInFilesOfTools(t *testing.T) {
	t.Parallel()
	for chart, content := range map[string]map[string]any{
		"openstack-cinder-csi": {
			"clusterID": "a", "timeout": "7m", "secret": map[string]any{
				"enabled": true, "create": true, "name": "login", "data": map[string]any{
					"cloud.conf": "[Global]\nauth-url = https://k:5000/v3\napplication-credential-id = i\n" +
						"application-credential-secret = \"c\"\n",
				},
			},
		},
		"openstack-manila-csi": {"csimanila": map[string]any{
			"clusterID": "a", "topologyAwarenessEnabled": true,
		}},
	} {
		text, err := yaml.Marshal(content)
		assert.NilError(t, err)
		want, _ := translated(t, string(text))
		files, err := valuestest.Wrapped(chart, content)
		assert.NilError(t, err)
		for tool, file := range files {
			found, remarks := unchecked(t, file)
			assert.Check(t, is.DeepEqual(want, found), "%s of %s", tool, chart)
			elsewhere := strings.Contains(file, "name: login, valuesKey") ||
				strings.Contains(file, "name: overrides") ||
				strings.Contains(file, "[$values/a.yaml]") || strings.Contains(file, "[a.yaml]")
			named := strings.Contains(remarks, "is not in this file")
			assert.Check(t, is.Equal(elsewhere, named), "%s: %s", tool, remarks)
		}
	}
	values, _ := translated(t, "releases: [{chart: a/openstack-manila-csi, values: [{}]}]")
	assert.Check(t, values["manila"] != nil)
}

// Values are found in any ConfigMap and Secret of a file. Later references of another object in it
// override earlier ones, and its own values override both.
func TestValuesInObjectsToWhichOthersRefer(t *testing.T) {
	t.Parallel()
	const first = "clusterID: a\ntimeout: 7m\nsecret: {enabled: true, name: one}\n"
	const second = "clusterID: b\nlogVerbosityLevel: 4\ncsi: {plugin: {x: confidential}}\n"
	holders := func(first, second string) string {
		return "kind: ConfigMap\nmetadata: {name: base}\ndata: {z: " + strconv.Quote(first) + "}\n---\n" +
			"kind: Secret\nmetadata: {name: over}\ndata: {a: " +
			base64.StdEncoding.EncodeToString([]byte(second)) + "}\n---\n"
	}
	for list, want := range map[string]string{
		"valuesFrom: [{kind: ConfigMap, name: base, valuesKey: z}, " +
			"{kind: Secret, name: over, valuesKey: a}]": "b",
		"valuesSources: [{secret: {name: over, key: a}}, {configMap: {name: base, key: z}}]": "a",
		"valuesFrom: [{configMapKeyRef: {name: base}}, {secretKeyRef: {name: over}}]":        "b",
		"values: {clusterID: c}\n  valuesFrom: [{name: base}, {name: over}]":                 "c",
	} {
		release := "kind: HelmRelease\nspec:\n  chart: {name: openstack-cinder-csi}\n  " + list + "\n"
		values, remarks := translated(t, holders(first, second)+release)
		assert.Check(t, is.Equal(lookUp(values, "cinder.spec.clusterID"), want), list)
		assert.Check(t, is.Equal(lookUp(values, "cinder.spec.sidecars.timeout"), "7m"), list)
		assert.Check(t, !strings.Contains(remarks, "confidential") &&
			!strings.Contains(remarks, "is not in this file"), remarks)
	}
	missing := "kind: HelmRelease\nspec:\n  chart: {name: openstack-cinder-csi}\n  valuesSources: " +
		"[{name: base}, {secret: {name: over, key: a}}, {secret: {name: gone, key: a}}]\n"
	_, remarks := translated(t, holders(first, second)+missing)
	assert.Check(t, is.Contains(remarks, "is not in this file"))
	both, _ := translated(t, "kind: Secret\nmetadata: {name: x}\nstringData: {a: "+
		strconv.Quote(second)+", b: "+strconv.Quote("csimanila: {clusterID: m}\n")+"}\n")
	assert.Check(t, is.Equal(lookUp(both, "cinder.spec.clusterID"), "b"))
	assert.Check(t, is.Equal(lookUp(both, "manila.spec.clusterID"), "m"))
}

// A file with something else is not called one without values: the message says what takes it.
func TestFileWithSomethingElse(t *testing.T) {
	t.Parallel()
	const clouds = "clouds: {a: {auth: {password: confidential}}}"
	for text, want := range map[string]string{
		clouds: "the file is a clouds.yaml (line 1), not values of cinder-csi-plugin or " +
			"manila-csi-plugin: below credentials write `clouds: |`, and below that, indented, the ",
		"-----BEGIN CERTIFICATE-----\nMIIB\n": "--set-file=credentials.cacert=FILE",
		"export OS_AUTH_URL=https://k/v3\n":   "is an openrc file (line 1)",
		"cinder: {enabled: true}":             "check it without --values",
		"kind: Secret\nmetadata: {name: x}\nstringData: {c: '" + clouds + "'}": "key c of Secret x is " +
			"a clouds.yaml",
		"kind: Service\nspec: {}": "is a manifest of kind Service (line 1), not values",
	} {
		v, err := New()
		assert.NilError(t, err)
		err = v.AddFile([]byte(text))
		assert.Check(t, is.ErrorContains(err, want), text)
		assert.Check(t, err == nil || !strings.Contains(err.Error(), "confidential"))
	}
}

// What newer charts have is known, or at least what sets other values of its section.
func TestValuesOfNewerCharts(t *testing.T) {
	t.Parallel()
	_, remarks := translated(t, "csi: {snapshotter: {enabled: false}}\n"+
		"secret: {namespace: kube-system, enabled: true, name: a}\n")
	assert.Check(t, is.Contains(remarks, "csi.snapshotter.enabled: The sidecar always runs"))
	assert.Check(t, is.Contains(remarks, "secret.namespace: docs/charts.md knows no such value. "+
		"Equals of others in secret are credentials.clouds, credentials.cacert, credentials.secret, "+
		"cinder.credentialsSecret."))
}
