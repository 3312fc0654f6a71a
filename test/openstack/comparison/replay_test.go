package comparison

import (
	"os"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// answersFile contains the answers of the real services by the names of the requests.
const answersFile = "testdata/answers.json"

// A difference that is not in testdata/differences.yaml is an error, and so is an entry of the file
// that is not a difference any more.
func TestSimulatorAnswersAsTheServices(t *testing.T) {
	t.Parallel()
	var known []Known
	read(t, "testdata/differences.yaml", &known)
	recorded := map[string]Fields{}
	read(t, answersFile, &recorded)
	cloud, err := simulator.New(config())
	check(t, err)
	var found []Difference
	for name, fields := range answers(t, cloud) {
		found = append(found, Compare(name, fields, recorded[name])...)
	}
	unknown, stale := Judge(found, known)
	for _, d := range unknown {
		t.Error(d)
	}
	for _, k := range stale {
		t.Errorf("%s: %s does not differ any more: remove it from differences.yaml", k.Request, k.Field)
	}
}

// config is the state of both clouds before the first request.
func config() simulator.Config {
	return simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}}, OperationTime: time.Hour,
		VolumeQuotas: []simulator.Quota{
			{Resource: "volumes", Limit: 4},
			{Resource: "gigabytes", Limit: 75},
			{Resource: "gigabytes___DEFAULT__", Limit: 70},
			{Resource: "per_volume_gigabytes", Limit: 50},
			{Resource: "snapshots", Limit: 0},
			{Resource: "backups", Limit: -1},
			{Resource: "backup_gigabytes", Limit: -1},
			{Resource: "groups", Limit: -1},
		},
		ShareQuotas: []simulator.Quota{
			{Resource: "shares", Limit: 9},
			{Resource: "gigabytes", Limit: 90},
			{Resource: "per_share_gigabytes", Limit: 50},
			{Resource: "snapshots", Limit: 0},
			{Resource: "snapshot_gigabytes", Limit: -1},
			{Resource: "share_networks", Limit: -1},
			{Resource: "share_groups", Limit: -1},
			{Resource: "share_group_snapshots", Limit: -1},
			{Resource: "share_replicas", Limit: -1},
			{Resource: "replica_gigabytes", Limit: -1},
			{Resource: "gigabytes", User: true, Limit: 80},
			{Resource: "gigabytes", ShareType: "default", Limit: 70},
			{Resource: "shares", ShareType: "default", Limit: 4},
		},
		Credentials: simulator.Credentials{UserName: "comparer", ProjectName: "comparison"},
	}
}

// answers starts a cloud, and returns its answers by the names of the requests.
func answers(t *testing.T, cloud testcloud.Cloud) map[string]Fields {
	t.Helper()
	check(t, cloud.Start(t.Context()))
	t.Cleanup(func() { check(t, cloud.Close()) })
	client, all := NewClient(cloud), map[string]Fields{}
	for _, request := range requests(t) {
		fields, err := client.Send(t.Context(), request)
		check(t, err)
		all[request.Name] = fields
	}
	return all
}

func requests(t *testing.T) (all []Request) {
	t.Helper()
	read(t, "testdata/requests.yaml", &all)
	return all
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	check(t, yaml.UnmarshalStrict(text, into))
}

func check(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}
