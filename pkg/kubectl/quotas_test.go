package kubectl

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// limits are quotas in two groups: what is nearly full, and what has enough left.
func limits() simulator.Config {
	return simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}},
		VolumeQuotas: []simulator.Quota{
			{Resource: "gigabytes", Limit: 1000, Others: 940},
			{Resource: "backups", Limit: 10},
			{Resource: "volumes", Limit: 10, Others: 2},
			{Resource: "snapshots", Limit: 0},
			{Resource: "per_volume_gigabytes", Limit: 100},
			{Resource: "gigabytes_secret", Limit: 7},
		},
		ShareQuotas: []simulator.Quota{
			{Resource: "gigabytes", Limit: 500},
			{Resource: "shares", Limit: -1},
			{Resource: "gigabytes", ShareType: "default", Limit: 2},
			{Resource: "gigabytes", User: true, Limit: 300},
		},
	}
}

func TestCheckSaysWhatIsLeftOfQuotas(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, limits())
	got := runChecked(t, false, exitOK, "check --clouds "+clouds)
	for _, want := range []string{
		"! quotas of Cinder in the OpenStack project that are nearly full: gigabytes: 60 of 1000 left",
		"ok quotas of Cinder: snapshots: none allowed, volumes: 8 of 10 left, backups: 10 of 10 left",
		"ok quotas of Manila: gigabytes: 500 of 500 left, gigabytes of the user: 300 of 300 left",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	for path, status := range map[string]int{
		"/volume/v3/os-quota-sets": http.StatusForbidden, "/share/v2/limits": http.StatusUnauthorized,
		"/share/v2/quota-sets": http.StatusServiceUnavailable,
	} {
		_, err := cloud.SetFault(simulator.Fault{
			Mode: simulator.Status, PathPrefix: path, Status: status,
		})
		assert.NilError(t, err)
	}
	got = runChecked(t, false, exitOK, "check --clouds "+clouds)
	for _, want := range []string{
		"ok Cinder offers 1 types", "does not show quotas to this login (HTTP 403)",
		"ok Manila offers 1 types", "refused the token (HTTP 401)", "returned HTTP 503",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	assert.Check(t, !strings.Contains(got, "nearly full"), got)
}

// Clouds without limits, with limits of 0, and with foreign volumes are healthy.
func TestQuotasOfHealthyCloudsAreNoWarning(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]simulator.Config{
		"no limit": {},
		"zero": {VolumeQuotas: []simulator.Quota{
			{Resource: "snapshots"}, {Resource: "gigabytes_other"}, {Resource: "volumes", Limit: -1},
		}},
		"others": {VolumeQuotas: []simulator.Quota{
			{Resource: "gigabytes", Limit: 1000, Others: 890}, {Resource: "volumes", Limit: 9, Others: 8},
		}},
	} {
		config.ShareTypes = []simulator.ShareType{{Name: "a"}}
		_, clouds := newCloud(t, config)
		got := runChecked(t, false, exitOK, "check --clouds "+clouds)
		assert.Check(t, !strings.Contains(got, "nearly full"), "%s: %s", name, got)
	}
}

func TestVolumesSaysWhoFillsQuotas(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, limits())
	volume, share := stock(t, cloud, "c1")
	orphan, _ := stock(t, cloud, "c1")
	s := marked(t, "c1", map[string]string{"pvc-1": share, "pvc-2": volume})
	for _, u := range s.Objects {
		if u.GetKind() == "PersistentVolume" {
			_ = unstructured.SetNestedField(u.Object, "shop", "spec", "claimRef", "namespace")
		}
	}
	_, stdout, stderr := run(t, s.options(t), false, "volumes", "-A", "--clouds="+clouds)
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"! quotas of Cinder in the OpenStack project that are nearly full: gigabytes: 58 of 1000 left",
		"ok Cinder stores, in GiB: others in the project 940, namespace shop 1, orphans 1. If nobody " +
			"needs its data, this frees most: openstack volume delete " + orphan,
		"! quotas of Manila in the OpenStack project that are full, or nearly: gigabytes of " +
			"type default: 0 of 2 left",
		"ok Manila stores, in GiB: namespace shop 1, orphans 1.", "openstack share delete ",
	} {
		assert.Check(t, is.Contains(got, want), "%s%s", got, stderr)
	}
	_, stdout, _ = run(t, s.options(t), false, "volumes", "-o=json", "--clouds="+clouds)
	var list Volumes
	assert.NilError(t, json.Unmarshal([]byte(stdout), &list))
	assert.Check(t, len(list.Quotas) > 3, stdout)
}

// waiting returns a scenario with a claim that waits for a message, and released volumes.
func waiting(t *testing.T, message string) *scenario {
	t.Helper()
	const objects = `
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    {namespace: shop, name: data, uid: data, creationTimestamp: '2026-11-24T11:56:50Z'}
  spec: {storageClassName: standard-csi, resources: {requests: {storage: 200Gi}}}
  status: {phase: Pending}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: small}
  spec:
    capacity: {storage: 10Gi}
    persistentVolumeReclaimPolicy: Retain
    csi: {driver: cinder.csi.openstack.org, volumeHandle: a}
    claimRef: {namespace: old, name: a}
  status: {phase: Released}
- apiVersion: v1
  kind: PersistentVolume
  metadata: {name: large}
  spec:
    capacity: {storage: 30Gi}
    persistentVolumeReclaimPolicy: Retain
    csi: {driver: cinder.csi.openstack.org, volumeHandle: b}
    claimRef: {namespace: old, name: b}
  status: {phase: Released}
`
	s := &scenario{}
	assert.NilError(t, yaml.Unmarshal([]byte(objects), &s.Objects))
	event := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "ProvisioningFailed",
		"metadata": map[string]any{"namespace": "shop", "name": "data.1"},
		"involvedObject": map[string]any{
			"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "uid": "data",
		},
		"message": message, "lastTimestamp": "2026-11-24T11:59:00Z",
	}}
	s.Objects = append(s.Objects, event)
	return s
}

func TestWhyComparesTheClaimWithQuotas(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, limits())
	s := waiting(t, "failed to provision volume: rpc error: code = ResourceExhausted desc = "+
		"VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. "+
		"Requested 200G, quota is 1000G and 940G has been consumed.")
	ask := func(args ...string) string {
		_, stdout, stderr := run(t, s.options(t), false, append([]string{"why", "pvc/data", "-n=shop"},
			args...)...)
		return strings.Join(strings.Fields(stdout+stderr), " ")
	}
	const frees = "kubectl patch pv large -p " +
		`'{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`
	for _, want := range []string{
		"quota gigabytes of the OpenStack project has 60 of 1000 GiB left; 200 GiB are requested",
		"ok Cinder stores, in GiB: released volumes 40, volumes without a claim 1. If nobody needs its " +
			"data, this frees most: " + frees, "run this command with --clouds",
	} {
		assert.Check(t, is.Contains(ask(), want))
	}
	got := ask("--clouds=" + clouds)
	for _, want := range []string{
		"ok the claim asks Cinder for 200 GiB more ! quotas of Cinder in the OpenStack project that " +
			"are nearly full: gigabytes: 60 of 1000 left",
		"others in the project 899, released volumes 40, volumes without a claim 1", frees,
	} {
		assert.Check(t, is.Contains(got, want))
	}
	assert.Check(t, !strings.Contains(got, "gigabytes_secret"), got)
	cloud.RotateCredentials(simulator.Rotation{})
	assert.Check(t, is.Contains(ask("--clouds="+clouds), "! from this machine: OpenStack's identity"))
}

// What is listed counts in the full quota, and nothing is to be deleted if that cannot help.
func TestWhyTiesItsAdviceToTheFullQuota(t *testing.T) {
	t.Parallel()
	ask := func(quota string, limit int) string {
		s := waiting(t, fmt.Sprintf("failed to provision volume: rpc error: code = ResourceExhausted "+
			"desc = VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed %s "+
			"quota. Requested 200G, quota is %dG and 160G has been consumed.", quota, limit))
		class := unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"provisioner": "cinder.csi.openstack.org", "metadata": map[string]any{"name": "fast"},
			"parameters": map[string]any{"type": "nvme"},
		}}
		for _, u := range s.Objects {
			if u.GetName() == "small" {
				_ = unstructured.SetNestedField(u.Object, "fast", "spec", "storageClassName")
			}
		}
		s.Objects = append(s.Objects, class)
		_, stdout, _ := run(t, s.options(t), false, "why", "pvc/data", "-n=shop")
		return strings.Join(strings.Fields(stdout), " ")
	}
	got := ask("gigabytes_nvme", 300)
	assert.Check(t, is.Contains(got, "Cinder stores of type nvme, in GiB: released volumes 10. If "+
		"nobody needs its data, this frees most: kubectl patch pv small"))
	assert.Check(t, is.Contains(ask("volumes", 300), "by number: released volumes 2, volumes without "+
		"a claim 1. If nobody needs its data, this frees one: kubectl"))
	got = ask("gigabytes_nvme", 180)
	assert.Check(t, is.Contains(got, "quota gigabytes_nvme of the OpenStack project has 180 GiB, of "+
		"which 160 are used; 200 GiB are requested"))
	assert.Check(t, strings.Contains(got, "request at most 180 GiB, or ask") &&
		!strings.Contains(got, "frees most"), got)
}

func TestPortionsHideOnlyWhatClaimsUse(t *testing.T) {
	t.Parallel()
	p := &portions{sizes: map[string]int{}, free: map[string]bool{}}
	for i := range 5 {
		p.add(fmt.Sprintf("namespace n%d", i), 10+i, false, "")
	}
	p.add("orphans", 1, true, "")
	assert.Check(t, is.Equal(p.String(),
		"namespace n4 14, namespace n3 13, namespace n2 12, orphans 1 and 2 more"))
}

// Other reasons are none for requests to OpenStack.
func TestWhyAsksOnlyIfAQuotaStopsTheClaim(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, limits())
	s := waiting(t, "failed to provision volume: rpc error: code = Internal desc = disk on fire")
	run(t, s.options(t), false, "why", "pvc/data", "-n=shop", "--clouds="+clouds)
	assert.Check(t, is.Len(cloud.Log(), 0))
}
