package kubectl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shareaccessrules"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// newCloud starts a cloud, and returns the path of its clouds.yaml.
func newCloud(tb testing.TB, config simulator.Config) (*simulator.Simulator, string) {
	tb.Helper()
	cloud, err := simulator.New(config)
	assert.NilError(tb, err)
	assert.NilError(tb, cloud.Start(tb.Context()))
	tb.Cleanup(func() { _ = cloud.Close() })
	var options simulator.Clouds
	if config.TLS {
		options.CACert = file(tb, cloud.CA())
	}
	return cloud, file(tb, cloud.CloudsYAML(options))
}

// runChecked runs a command in an empty cluster or in the healthy one, and returns its output
// without line breaks.
func runChecked(t *testing.T, installed bool, wantCode int, args string) string {
	t.Helper()
	var s scenario
	for _, one := range situations(t) {
		if one.Name == "a cluster without a driver" && !installed {
			s = one.scenario
		}
	}
	code, stdout, stderr := run(t, s.options(t), false, strings.Fields(args)...)
	assert.Check(t, code == wantCode, "%s: exit code %d, want %d", args, code, wantCode)
	return strings.Join(strings.Fields(stdout+stderr), " ")
}

// The path of the CA in the file is one of this machine.
func TestCheckTestsTheLogin(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{
		TLS: true, ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	const accepted = "entry openstack, password. This machine sent it"
	got := runChecked(t, false, exitFailed, "check --clouds "+clouds)
	option := regexp.MustCompile(`here add (--cacert=\S+)`).FindStringSubmatch(got)
	assert.Assert(t, is.Len(option, 2), got)
	assert.Check(t, is.Contains(got, accepted))
	assert.Check(t, is.Contains(got, "!! the operators refuse this file: key clouds.yaml of "+clouds+
		" has a path in clouds.openstack.cacert"))
	clouds += " " + option[1]
	got = runChecked(t, false, exitOK, "check --clouds "+clouds)
	for _, want := range []string{
		accepted, "ok Cinder offers 1 types to this project", "ok Manila offers 1 types to this project",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	got = runChecked(t, true, exitOK, "check --clouds "+clouds)
	assert.Check(t, strings.HasPrefix(got, "ok Cinder, Manila: ready") &&
		strings.Contains(got, accepted), got)
	with := slices.Concat(cloud.CloudsYAML(simulator.Clouds{}), []byte("---\na: b\n"))
	got = runChecked(t, false, exitOK, "check --clouds "+file(t, with)+" "+option[1])
	assert.Check(t, is.Contains(got, "has no effect: only the first one"))
	with = cloud.CloudsYAML(simulator.Clouds{})
	with = bytes.ReplaceAll(with, []byte("project_domain_"), []byte("other_"))
	got = runChecked(t, false, exitUsage, "check --clouds "+file(t, with))
	assert.Check(t, is.Contains(got, "lacks project_domain_name or project_domain_id"))
	cloud.RotateCredentials(simulator.Rotation{})
	const refused = "from this machine: OpenStack's identity service"
	got = runChecked(t, false, exitFailed, "check --clouds "+clouds)
	assert.Check(t, strings.HasPrefix(got, "the cluster is not ready for an installation: "+refused) &&
		strings.Contains(got, "project and domain in "+strings.Fields(clouds)[0]), got)
	got = runChecked(t, true, exitFailed, "check --clouds "+clouds)
	assert.Check(t, strings.HasPrefix(got, "!! cloud "+refused), got)
}

// The rules permit all that Cinder needs but one request, and nothing of Manila.
func TestCheckNamesWhatTheLoginMayNotDo(t *testing.T) {
	t.Parallel()
	end := time.Now().UTC().Add(72 * time.Hour)
	credentials := simulator.Credentials{Role: "Reader", ApplicationCredentialExpiry: end}
	for _, rule := range []string{
		"identity GET /v3/users/*/application_credentials/*", "volumev3 GET /v3/**",
		"volumev3 POST /v3/*/volumes", "volumev3 POST /v3/*/volumes/*/action",
		"volumev3 DELETE /v3/**", "volumev3 POST /v3/*/backups", "compute GET /v2.1/**",
		"compute POST /v2.1/**", "compute DELETE /v2.1/**",
	} {
		parts := strings.Fields(rule)
		credentials.AccessRules = append(credentials.AccessRules, applicationcredentials.AccessRule{
			Service: parts[0], Method: parts[1], Path: parts[2],
		})
	}
	cloud, _ := newCloud(t, simulator.Config{Credentials: credentials})
	clouds := file(t, cloud.CloudsYAML(simulator.Clouds{Auth: simulator.ApplicationCredential}))
	got := runChecked(t, false, exitOK, "check --clouds "+clouds)
	for _, want := range []string{
		"! the application credential of the login expires at " + end.Format(time.RFC3339),
		"! the roles of the login in its project are Reader. Unless", "for the role member. An",
		"do not permit all requests that Cinder needs. OpenStack will refuse these (1). Create another",
		"volumev3 POST /v3/*/snapshots (a new snapshot) ",
		"ok the access rules of the login permit no request of Manila",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	for _, output := range []string{"", " -o=json"} {
		got = runChecked(t, true, exitOK, "check --clouds "+clouds+output)
		assert.Check(t, is.Contains(got, "volumev3 POST /v3/*/snapshots (a new snapshot)"))
	}
}

func TestCheckComparesTheTypesOfOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{
		{Name: "default"}, {Name: "gold", ShareServers: true}, {Name: "test"},
	}})
	choices := file(t, []byte("apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n"+
		"types:\n  exclude: [silver, test]\nclasses:\n- {type: default, name: second}\n"+
		"- {type: test, reclaimPolicy: Retain}\n"))
	got := runChecked(t, true, exitOK, "check -f "+choices+" --clouds "+clouds)
	for _, want := range []string{
		`! types.exclude[0]: "silver" matches no share type that Manila offers`,
		`! classes[1].type: "test" has no effect: types does not select this share type.`,
		`! share type "gold" needs a share network`,
		"StorageClasses: 1 created, 2 changed, 0 as they are", "+++ StorageClass/second",
		"+ csi.storage.k8s.io/node-stage-secret-name: csi-manila-secrets",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	cloud.RotateCredentials(simulator.Rotation{})
	got = runChecked(t, true, exitFailed, "check -f "+choices+" --clouds "+clouds)
	assert.Check(t, !strings.Contains(got, "StorageClasses:"), got)
}

// In the environment of the test no cluster answers.
func TestCheckOfAFileNeedsNoCluster(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("KUBECONFIG", filepath.Join(folder, "none"))
	t.Setenv("HOME", folder)
	dead := kubeconfig(t)
	for args, want := range map[string]int{
		"check -f testdata/operator.wrong.yaml --kubeconfig=" + dead:  exitFailed,
		"check -f testdata/operator.cinder.yaml --kubeconfig=" + dead: exitUnreachable,
		"check -f testdata/operator.cinder.yaml":                      exitOK,
		"check -f testdata/operator.wrong.yaml":                       exitFailed,
		"check -f testdata/missing.yaml":                              exitUsage,
		"check":                                                       exitUsage,
	} {
		var output strings.Builder
		code := execute(t.Context(), newOptions(), strings.Fields(args),
			Streams{Out: &output, Err: &output})
		assert.Check(t, is.Equal(code, want), "%s: %s", args, &output)
	}
	var output strings.Builder
	text := "apiVersion: csi.openstack.org/v1alpha1\nkind: CinderDriver\n" +
		"metadata: {name: cinder.csi.openstack.org}\nspec: {classes: [{type: gold}]}\n"
	execute(t.Context(), newOptions(), []string{"check", "-f", file(t, []byte(text))},
		Streams{Out: &output, Err: &output})
	assert.Check(t, is.Contains(output.String(), `classes[0].type: "gold" has no effect`))
}

// The mistakes have the lines of the file, whether they are about the shape or the value.
func TestCheckReadsConfigMapsAndValues(t *testing.T) {
	t.Parallel()
	var files map[string][2]string
	decode(t, "testdata/files.yaml", &files)
	for name, test := range files {
		var output strings.Builder
		code := execute(t.Context(), (&scenario{}).options(t),
			[]string{"check", "-f", "-", "--kubeconfig=" + kubeconfig(t)},
			Streams{In: strings.NewReader(test[0]), Out: &output, Err: &output})
		got := strings.Join(strings.Fields(output.String()), " ")
		assert.Check(t, code == exitFailed && strings.HasPrefix(got, "- is invalid: ") &&
			strings.Contains(got, test[1]), "%s: %s", name, got)
	}
}

// No value of the chart is a mistake, whether a driver is enabled or not.
func TestCheckAcceptsValues(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../assets/helm/generated/openstack-csi/values.schema.json")
	assert.NilError(t, err)
	var schema struct{ Properties map[string]any }
	assert.NilError(t, json.Unmarshal(text, &schema))
	assert.Check(t, len(schema.Properties) > 0)
	const byServer = "?? the operator has the API server check spec.pods, and reports mistakes " +
		"in its status"
	valid := map[string][]string{
		"manila: {enabled: true}": {"- is a valid ManilaDriver"},
		"cinder: {enabled: true, spec: {logLevel: Debug}}\npods: {node: {priorityClassName: a}}": {
			"- is a valid CinderDriver", byServer,
		},
		"apiVersion: csi.openstack.org/v1alpha1\nkind: CinderDriver\nmetadata: {name: " +
			"cinder.csi.openstack.org}\nspec: {pods: {node: {priorityClassName: a}}}": {
			"- is a valid CinderDriver", byServer,
		},
		"kubeletDir: /var/lib/kubelet": {"- is valid"},
	}
	for key := range schema.Properties {
		if key != "kubeletDir" && key != "clusterID" {
			value := map[bool]string{true: ": true", false: ": {}"}[key == "enabled"]
			valid[key+value] = []string{"- is valid"}
		}
	}
	for values, want := range valid {
		var output strings.Builder
		code := execute(t.Context(), (&scenario{}).options(t),
			[]string{"check", "-f", "-", "--kubeconfig=" + kubeconfig(t)},
			Streams{In: strings.NewReader(values), Out: &output, Err: &output})
		got := strings.Join(strings.Fields(output.String()), " ")
		assert.Check(t, is.Equal(code, exitOK), "%s: %s", values, got)
		for _, part := range want {
			assert.Check(t, is.Contains(got, part), values)
		}
	}
}

// stock creates a volume and a share with the ID of a cluster, and returns their IDs.
func stock(t *testing.T, cloud *simulator.Simulator, cluster string) (volume, share string) {
	t.Helper()
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	share, err = administrator.CreateShare(t.Context(), manila, shares.CreateOpts{
		ShareProto: "NFS", Size: 1,
		Metadata: map[string]string{"manila.csi.openstack.org/cluster": cluster},
	})
	assert.NilError(t, err)
	cinder, err := openstack.NewBlockStorageV3(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(t, err)
	created, err := volumes.Create(t.Context(), cinder, volumes.CreateOpts{
		Size: 1, Metadata: map[string]string{"cinder.csi.openstack.org/cluster": cluster},
	}, nil).Extract()
	assert.NilError(t, err)
	for ctx := t.Context(); created.Status == "creating" && ctx.Err() == nil; {
		created, err = volumes.Get(ctx, cinder, created.ID).Extract()
		assert.NilError(t, err)
	}
	return created.ID, share
}

// marked returns a scenario of a cluster with an ID, whose PersistentVolumes have handles.
func marked(tb testing.TB, id string, handles map[string]string) *scenario {
	tb.Helper()
	s := &scenario{}
	var all []unstructured.Unstructured
	decode(tb, "testdata/objects.yaml", &all)
	for _, u := range all {
		handle, fields := handles[u.GetName()], u.Object
		switch {
		case u.GetKind() == "PersistentVolume" && handle != "":
			_ = unstructured.SetNestedField(fields, handle, "spec", "csi", "volumeHandle")
		case u.GetKind() == "Infrastructure":
			_ = unstructured.SetNestedField(fields, id, "status", "infrastructureName")
		default:
			continue
		}
		s.Objects = append(s.Objects, u)
	}
	return s
}

func TestVolumesShowsWhatIsOrphaned(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	volume, share := stock(t, cloud, "c1")
	lost, lostShare := stock(t, cloud, "c1")
	other, _ := stock(t, cloud, "c2")
	s := marked(t, "c1", map[string]string{"pvc-2": volume})
	code, stdout, stderr := run(t, s.options(t), false, "volumes", "-A", "-o=json", "--clouds="+clouds)
	var list Volumes
	assert.NilError(t, json.Unmarshal([]byte(stdout), &list), "%s%s", stdout, stderr)
	assert.Check(t, is.Equal(code, exitFailed))
	var got []string
	for _, v := range list.Volumes {
		got = append(got, fmt.Sprintln(v.Claim, v.PersistentVolume, v.ID, v.Cloud, v.State, v.Size,
			v.Orphan))
	}
	const none = "no PersistentVolume 1Gi true\n"
	want := []string{
		"bound pvc-1 share-1 missing Bound 1Gi true\n",
		"disk pvc-2 " + volume + " available Bound 1Gi false\n",
		"  " + lost + " available " + none, "  " + share + " available " + none,
		"  " + lostShare + " available " + none,
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Check(t, is.DeepEqual(want, got), "volumes")
	assert.Check(t, strings.Contains(stderr, "This machine sent it") &&
		!strings.Contains(stdout, other), "%s%s", stdout, stderr)
	_, _, stderr = run(t, marked(t, "c1", nil).options(t), false, "volumes", "-A", "--clouds="+clouds)
	assert.Check(t, is.Contains(stderr, "OpenStack contains no volume of this list"))
	s = marked(t, sharedID, nil)
	code, _, stderr = run(t, s.options(t), false, "volumes", "--clouds="+clouds)
	assert.Check(t, code == exitFailed && strings.Contains(stderr, "Choose an ID"), stderr)

	s = &scenario{Remove: []string{"Infrastructure cluster"}}
	served := unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"namespace": "openshift-cluster-csi-drivers", "clusterID": "c1",
	}}}
	served.SetGroupVersionKind(flavour.Kubernetes.Object("CinderDriver"))
	served.SetName("cinder.csi.openstack.org")
	s.Objects = append(s.Objects, served)
	_, stdout, stderr = run(t, s.options(t), false, "volumes", "-A", "--clouds="+clouds)
	assert.Check(t, strings.Contains(stdout, lost), "on Kubernetes: %s%s", stdout, stderr)
}

func TestVolumesNamesSharesForEveryAddress(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	var all []string
	for _, network := range []string{"0.0.0.0/0", "10.0.0.0/8"} {
		_, share := stock(t, cloud, "c1")
		_, err := shares.GrantAccess(t.Context(), manila, share, shares.GrantAccessOpts{
			AccessType: "ip", AccessTo: network, AccessLevel: "rw",
		}).Extract()
		assert.NilError(t, err)
		all = append(all, share)
	}
	s := marked(t, "c1", map[string]string{"pvc-1": all[0]})
	_, stdout, stderr := run(t, s.options(t), false, "volumes", "-A", "--access", "--clouds="+clouds)
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"! shares that every address may mount if it reaches their servers (1): shop/bound. For new",
		"ok shares whose access rules were read: 2",
	} {
		assert.Check(t, is.Contains(got, want), stderr)
	}
	code, _, stderr := run(t, s.options(t), false, "volumes", "--access")
	assert.Check(t, code == exitUsage && strings.Contains(stderr, "needs --clouds"), stderr)
}

// The first command only adds rules. The second removes that for every address when a pod runs on
// each node with a share that only the networks may mount.
func TestRestrictEndsNoMount(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	share := func(network string) string {
		_, id := stock(t, cloud, "c1")
		_, err := shares.GrantAccess(t.Context(), manila, id, shares.GrantAccessOpts{
			AccessType: "ip", AccessTo: network, AccessLevel: "rw",
		}).Extract()
		assert.NilError(t, err)
		return id
	}
	s := marked(t, "c1", nil)
	mount := func(claim, share, node string) {
		var more scenario
		assert.NilError(t, yaml.Unmarshal(fmt.Appendf(nil, `objects:
- {apiVersion: v1, kind: PersistentVolume, metadata: {name: pvc-%[1]s}, status: {phase: Bound},
    spec: {claimRef: {namespace: shop, name: %[1]s},
      csi: {driver: manila.csi.openstack.org, volumeHandle: %[2]s}}}
- {apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: %[1]s}, status: {phase: Running},
    spec: {nodeName: %[3]s, volumes: [{name: v, persistentVolumeClaim: {claimName: %[1]s}}]}}
`, claim, share, node), &more))
		s.Objects = append(s.Objects, more.Objects...)
	}
	open, narrow := share("0.0.0.0/0"), share("10.2.0.0/16")
	mount("data", open, "worker-1")
	rules := func() (all []string) {
		found, err := shareaccessrules.List(t.Context(), manila, open).Extract()
		assert.NilError(t, err)
		for _, rule := range found {
			all = append(all, rule.AccessTo+" "+rule.AccessLevel)
		}
		slices.Sort(all)
		return all
	}
	restrict := func(wantCode int, want string, args ...string) {
		t.Helper()
		o := s.options(t)
		o.interval = time.Millisecond
		code, stdout, stderr := run(t, o, false, append([]string{
			"restrict", "--clouds=" + clouds,
		}, args...)...)
		assert.Check(t, code == wantCode && strings.Contains(stdout+stderr, want), "%d: %s%s", code,
			stdout, stderr)
	}
	restrict(exitUsage, "contains every address", "-A", "--to=::/0")
	restrict(exitFailed, "has no claim other", "other", "--to=10.0.0.0/8")
	restrict(exitFailed, "lacks an active rule", "-A", "--to=10.0.0.0/8", "--revoke")
	restrict(exitOK, "may mount the share of shop/data\nEvery address", "-A", "--to=10.0.0.0/8")
	assert.Check(t, is.DeepEqual(rules(), []string{"0.0.0.0/0 rw", "10.0.0.0/8 rw"}))
	restrict(exitFailed, "may see another address: worker-1.", "-A", "--to=10.0.0.0/8", "--revoke")
	s.Forbidden = []string{"Pods"}
	restrict(exitFailed, "you may not read Pods", "-A", "--to=10.0.0.0/8", "--revoke")
	s.Forbidden = nil
	mount("probe-1", narrow, "worker-1")
	mount("twin", open, "worker-2") // a second PersistentVolume of the share
	restrict(exitFailed, "may see another address: worker-2.", "data", "-n=shop", "--to=10.0.0.0/8",
		"--revoke")
	mount("probe-2", narrow, "worker-2")
	restrict(exitOK, "only the networks", "data", "-n=shop", "--to=10.0.0.0/8", "--revoke")
	assert.Check(t, is.DeepEqual(rules(), []string{"10.0.0.0/8 rw"}))
	restrict(exitOK, "No share of the claims", "-A", "--to=10.0.0.0/8", "--revoke")
}

// A fence owns the rules of its shares, others use shares that the driver did not create, and old
// plugins know one rule.
func TestRestrictLeavesFencesOthersAndOldPlugins(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	_, fenced := stock(t, cloud, "c1")
	_, err = shares.UpdateMetadata(t.Context(), manila, fenced, shares.UpdateMetadataOpts{
		Metadata: map[string]string{"csi-addons-fenced-by": "c1"},
	}).Extract()
	assert.NilError(t, err)
	_, other := stock(t, cloud, "c2")
	const image = "registry.example/manila-csi-plugin:"
	for _, test := range []struct{ share, version, want string }{
		{fenced, "v1.34.2", "update it to v1.35.0"},
		{fenced, "v1.36.0", "a NetworkFence holds share " + fenced},
		{other, "v1.36.0", "the driver of this cluster did not create share " + other},
		{"lost", "v1.36.0", "Manila has no share lost"},
	} {
		s := marked(t, "c1", nil)
		var more scenario
		assert.NilError(t, yaml.Unmarshal(fmt.Appendf(nil, `objects:
- {apiVersion: v1, kind: PersistentVolume, metadata: {name: pvc-data}, status: {phase: Bound},
    spec: {claimRef: {namespace: shop, name: data},
      csi: {driver: manila.csi.openstack.org, volumeHandle: %[2]s}}}
- {apiVersion: apps/v1, kind: DaemonSet, spec: {template: {spec: {containers: [{image: '%[1]s'}]}}},
   metadata: {namespace: openshift-manila-csi-driver, name: openstack-manila-csi-nodeplugin}}
`, image+test.version, test.share), &more))
		s.Objects = append(s.Objects, more.Objects...)
		for _, args := range [][]string{{"-A"}, {"data", "-n=shop"}, {"-A", "--revoke"}} {
			code, stdout, stderr := run(t, s.options(t), false, append([]string{
				"restrict", "--to=10.0.0.0/8", "--clouds=" + clouds,
			}, args...)...)
			said := strings.Join(strings.Fields(stderr), " ")
			assert.Check(t, code == exitFailed && strings.Contains(said, test.want) && stdout == "",
				"%v: %s%s", args, stdout, stderr)
		}
	}
}

func TestWhatOpenStackCreatesOrDeletesIsNoOrphan(t *testing.T) {
	t.Parallel()
	in := &contents{of: map[string]map[string]stored{onOpenShift("manila").name: {
		"a": {status: "creating_from_snapshot", ours: true}, "b": {status: "deleting", ours: true},
		"c": {status: "error_deleting", ours: true, gibibytes: 3, name: "pvc-c", server: "s"},
	}}}
	list := &Volumes{}
	facts := &volumeFacts{session: &session{guest: &cluster{}}}
	assert.NilError(t, list.compare(t.Context(), in, facts, true))
	assert.Check(t, len(list.Volumes) == 1 && list.Volumes[0].ID == "c", "%+v", list.Volumes)
	list.cloud, list.all = true, true
	var out strings.Builder
	list.write(&out, false)
	assert.Check(t, is.Equal(strings.Join(strings.Fields(out.String()), " "), "NAMESPACE CLAIM "+
		"VOLUME ID SIZE NODE STATE CLOUD NAME SERVER - - - c 3Gi - no PersistentVolume error_deleting "+
		"pvc-c s"))
}
