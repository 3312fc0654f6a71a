//go:build integration

package logins_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
)

// Each setting that a driver of Cinder reads is passed on, and is a field of a CinderDriver, except
// [Global], which the operator generates, and a timeout that the driver of Cinder does not use.
func TestSettingsThatDriversReadArePassedOn(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "settings")
	assert.NilError(t, os.Mkdir(folder, 0o700))
	values := map[string]string{"int64": "1", "bool": "true", "string": "metadataService"}
	fields := settingsIn(optionsWithAllFields().CloudConf())
	for _, p := range programs(t) {
		settings, err := p.run(t, folder)
		assert.NilError(t, err)
		passed := map[string]string{}
		for setting, kind := range settings {
			section, name, _ := strings.Cut(setting, " ")
			if section == "Global" || setting == "Metadata request-timeout" {
				continue
			}
			text := "[" + section + "]\n" + name + " = " + values[kind] + "\n"
			conf, err := cinder.CloudConf([]byte(text), cinder.Options{Cloud: "openstack"})
			assert.Check(t, err == nil && strings.HasSuffix(string(conf), "\n"+text),
				"%s, %s: %v: %s", p.version, setting, err, conf)
			passed[setting] = values[kind]
		}
		assert.Check(t, is.DeepEqual(passed, fields), "%s: fields of a CinderDriver", p.version)
	}
}

// optionsWithAllFields returns options of the driver with a value in each field.
func optionsWithAllFields() (d api.Driver) {
	for _, section := range []reflect.Value{
		reflect.ValueOf(&d.BlockStorage).Elem(), reflect.ValueOf(&d.Metadata).Elem(),
	} {
		for _, field := range section.Fields() {
			value := map[reflect.Kind]any{
				reflect.Int64: int64(1), reflect.Bool: true, reflect.Slice: []string{"metadataService"},
			}[field.Kind()]
			field.Set(reflect.ValueOf(value))
		}
	}
	return d
}

// settingsIn returns the settings in a cloud.conf, by section and name.
func settingsIn(conf string) map[string]string {
	found, section := map[string]string{}, ""
	for line := range strings.Lines(conf) {
		name, value, setting := strings.Cut(strings.TrimSpace(line), " = ")
		if setting {
			found[section+" "+name] = strings.Trim(value, `"`)
		} else {
			section = strings.Trim(name, "[]")
		}
	}
	return found
}
