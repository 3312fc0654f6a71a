package logins_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/pkg/charts"
)

// conf is what users of the charts of cloud-provider-openstack write.
type conf struct {
	Name, Conf, Clouds, TLS string
	Secret                  map[string]string
	// Refused is a part of the remark about a login that is not taken over.
	Refused string
}

func readConfs(t *testing.T) (confs []conf) {
	t.Helper()
	decode(t, "testdata/confs.yaml", &confs)
	return confs
}

// write writes the files of the driver into a folder, and returns its name.
func (one conf) write(t *testing.T, w *world, c *cloud) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), one.driver())
	assert.NilError(t, os.Mkdir(folder, 0o700))
	for name, text := range map[string]string{
		"cloud.conf": one.Conf, "clouds.yaml": one.Clouds, "ca.pem": "${CA:private}",
		"keys.json": compact(one.Secret),
	} {
		content := w.replace(strings.ReplaceAll(text, "${DIR}", folder), c)
		assert.NilError(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	return folder
}

func (one conf) driver() string {
	if one.Conf == "" {
		return "manila"
	}
	return "cinder"
}

// values returns the credentials in the values for our chart, and the remarks.
func (one conf) values(t *testing.T, folder string) (content, string) {
	t.Helper()
	v, err := charts.New()
	assert.NilError(t, err)
	if one.Conf != "" {
		text, failed := os.ReadFile(filepath.Join(folder, "cloud.conf"))
		err = errors.Join(failed, v.AddConf("conf", [][]byte{text}, os.ReadFile))
	} else {
		var keys map[string]string
		text, failed := os.ReadFile(filepath.Join(folder, "keys.json"))
		err = errors.Join(failed, yaml.Unmarshal(text, &keys))
		data := map[string][]byte{}
		for key, value := range keys {
			data[key] = []byte(value)
		}
		err = errors.Join(err, v.AddSecret("Secret", data, os.ReadFile))
	}
	assert.NilError(t, err)
	text, err := v.YAML()
	assert.NilError(t, err)
	var values struct {
		Credentials struct{ Clouds, CACert string }
	}
	assert.NilError(t, yaml.Unmarshal(text, &values))
	secret := map[string][]byte{"cacert": []byte(values.Credentials.CACert)}
	if values.Credentials.Clouds != "" {
		secret["clouds.yaml"] = []byte(values.Credentials.Clouds)
	}
	return content{secret: secret}, strings.Join(v.Remarks(), "\n")
}

// A login that is refused is named by its option, and no remark contains a value.
func TestRemarksAboutLoginsOfOtherCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, one := range readConfs(t) {
		t.Run(one.Name, func(t *testing.T) {
			t.Parallel()
			c := w.cloud(t, row{TLS: one.TLS})
			content, remarks := one.values(t, one.write(t, w, c))
			assert.Check(t, is.Equal(content.secret["clouds.yaml"] == nil, one.Refused != ""), remarks)
			assert.Check(t, is.Contains(remarks, one.Refused))
			assert.Check(t, !strings.Contains(strings.ReplaceAll(remarks, "Secret", ""), "secret"), remarks)
		})
	}
}
