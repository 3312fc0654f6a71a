//go:build integration

package logins_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
)

// Each setting that a driver of Cinder reads is passed on, except [Global], which the operator
// generates, and a timeout that the driver of Cinder does not use.
func TestSettingsThatDriversReadArePassedOn(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "settings")
	assert.NilError(t, os.Mkdir(folder, 0o700))
	values := map[string]string{"int64": "1", "bool": "true", "string": "metadataService"}
	for _, p := range programs(t) {
		settings, err := p.run(t, folder)
		assert.NilError(t, err)
		passed := 0
		for setting, kind := range settings {
			section, name, _ := strings.Cut(setting, " ")
			if section == "Global" || setting == "Metadata request-timeout" {
				continue
			}
			text := "[" + section + "]\n" + name + " = " + values[kind] + "\n"
			conf, err := cinder.CloudConf([]byte(text), cinder.Options{Cloud: "openstack"})
			assert.Check(t, err == nil && strings.HasSuffix(string(conf), "\n"+text),
				"%s, %s: %v: %s", p.version, setting, err, conf)
			passed++
		}
		assert.Check(t, passed >= 5, "%s: the driver reads %v", p.version, settings)
	}
}
