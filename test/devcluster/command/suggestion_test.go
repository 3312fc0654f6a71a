package command

import (
	"testing"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

func TestMisspeltNamesGetSuggestions(t *testing.T) {
	t.Parallel()
	const hint = "\n\nDid you mean this?\n\t"
	for line, want := range map[string]string{
		"run --driver=cinder": "unknown flag: --driver" + hint + "--drivers",
		"run --nodez=real":    "unknown flag: --nodez" + hint + "--nodes",
		"run -f=hypershift":   "unknown shorthand flag: 'f' in -f=hypershift" + hint + "--flavour",
		"run --b=x":           "unknown flag: --b" + hint + "--bin\n\t--binaries",
		"run --volumes=9":     "unknown flag: --volumes",
		"run --guests=many": `invalid argument "many" for "--guests" flag: ` +
			`strconv.ParseInt: parsing "many": invalid syntax`,
		"api stop --sides=guest": "unknown flag: --sides" + hint + "--side",
		"runn":                   `unknown command "runn" for "devcluster"` + hint + "run\n",
		"cloud outag":            `unknown command "outag" for "devcluster cloud"` + hint + "outage",
		"cloud share-type ad":    `unknown command "ad" for "devcluster cloud share-type"` + hint + "add",
		"cloud weather":          `unknown command "weather" for "devcluster cloud"`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			_, err := runCommand(t.Context(), paths.Dir(t.TempDir()), line)
			if err == nil || err.Error() != want {
				t.Errorf("got %v\nwant %s", err, want)
			}
		})
	}
}
