//go:build integration

package logins_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
)

// program is a process with the drivers' code of one version.
type program struct {
	version string

	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// programs starts the drivers of all versions.
func programs(t *testing.T) []*program {
	t.Helper()
	started := make([]*program, 0, 2)
	for _, version := range []string{"v1.33", "v1.36"} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("BIN_DIR"), "logins", version))
		in, err := cmd.StdinPipe()
		assert.NilError(t, err)
		out, err := cmd.StdoutPipe()
		assert.NilError(t, err)
		assert.NilError(t, cmd.Start(), "make test-logins builds the program")
		t.Cleanup(func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
		started = append(started, &program{version: version, in: in, out: bufio.NewReader(out)})
	}
	return started
}

// run starts a part of a driver in a folder, and returns the endpoints that it finds.
func (p *program) run(t *testing.T, folder string) (map[string]string, error) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := io.WriteString(p.in, folder+"\n"); err != nil {
		t.Fatal(err)
	}
	line, err := p.out.ReadBytes('\n')
	assert.NilError(t, err)
	var answer struct {
		Error     string
		Endpoints map[string]string
	}
	assert.NilError(t, json.Unmarshal(line, &answer))
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	return answer.Endpoints, nil
}

// files are the files of the drivers by folder: what the operators generate, and for a driver whose
// operator refuses the content at any step, what people wrote. Without a login, that is only known
// for Cinder, whose driver reads the unchanged Secret.
func files(t *testing.T, c content, folder string) map[string]map[string]string {
	t.Helper()
	g, err := generate(c)
	found := map[string]map[string]string{}
	if err == nil {
		keys := g.keys
		if c.refused["manila"] {
			keys["os-authURL"] = c.authURL(t)
		}
		found["manila"] = map[string]string{"keys.json": compact(keys)}
	}
	if err != nil || c.refused["cinder"] {
		options := cinder.Options{CloudsFile: cloudsFile, Cloud: "openstack"}
		if login, refusal := c.login(); err == nil && refusal == nil {
			options.Cloud = login.Entry
		}
		if g.ca = string(c.secret["cacert"]); strings.TrimSpace(g.ca) == "" {
			g.ca = c.ca
		}
		if strings.TrimSpace(g.ca) != "" {
			options.CAFile = caFile
		}
		g.clouds = c.secret["clouds.yaml"]
		if g.cloudConf, err = cinder.CloudConf(nil, options); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []string{"cinder", "cinder-node"} {
		there := filepath.Join(folder, part)
		conf := strings.NewReplacer(cloudsFile, filepath.Join(there, "clouds.yaml"),
			caFile, filepath.Join(there, "ca-bundle.pem")).Replace(string(g.cloudConf))
		found[part] = map[string]string{
			"cloud.conf": conf, "clouds.yaml": string(g.clouds), "ca-bundle.pem": g.ca,
		}
	}
	return found
}

// authURL returns the auth_url that people wrote into the only entry.
func (c content) authURL(t *testing.T) string {
	t.Helper()
	var text clientconfig.Clouds
	assert.NilError(t, yaml.Unmarshal(c.secret["clouds.yaml"], &text))
	for _, entry := range text.Clouds {
		return entry.AuthInfo.AuthURL
	}
	return ""
}

// drive returns what drivers do, by driver and version.
func drive(t *testing.T, r row, content content, c *cloud, drivers []*program) map[string]string {
	t.Helper()
	folder := t.TempDir()
	parts := files(t, content, folder)
	for part, names := range parts {
		for name, text := range names {
			file := filepath.Join(folder, part, name)
			assert.NilError(t, os.MkdirAll(filepath.Dir(file), 0o700))
			assert.NilError(t, os.WriteFile(file, []byte(text), 0o600))
		}
	}
	found := map[string]string{}
	for _, p := range drivers {
		for driver, services := range drivenServices() {
			if parts[driver] == nil {
				continue
			}
			c.take()
			endpoints, err := p.run(t, filepath.Join(folder, driver))
			logins, _ := c.take()
			found[driver+" "+p.version] = r.outcome(c, err, logins, endpoints, services...)
		}
		_, err := p.run(t, filepath.Join(folder, "cinder-node"))
		if err != nil && !content.refused["cinder"] {
			found["cinder-node "+p.version] = fails + c.anonymous(err.Error())
		}
	}
	return found
}

// TestDriversWorkWithWhatOperatorsGenerate gives each driver what its operator generates. A driver
// works if and only if the table says that its operator accepts the content.
func TestDriversWorkWithWhatOperatorsGenerate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	drivers := programs(t)
	for _, r := range readRows(t, w) {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			c := w.cloud(t, r)
			content := r.content(w, c)
			for driver := range drivenServices() {
				content.refused[driver] = r.refusal(driver) != ""
			}
			expectNone(t, r.unexpected(drive(t, r, content, c, drivers)))
		})
	}
}

// unexpected returns the outcomes that a row does not want.
func (r row) unexpected(outcomes map[string]string) map[string]string {
	found := map[string]string{}
	for driver, outcome := range outcomes {
		if !r.expects(driver, outcome) {
			found[driver] = outcome
		}
	}
	for driver := range r.Drivers {
		if outcomes[driver] == "" {
			found[driver] = "does not run"
		}
	}
	return found
}

// expects returns whether a row wants an outcome of a driver such as "cinder v1.36".
func (r row) expects(driver, outcome string) bool {
	if exception, found := r.Drivers[driver]; found {
		return strings.Contains(outcome, exception)
	}
	name, _, _ := strings.Cut(driver, " ")
	if r.refusal(strings.TrimSuffix(name, "-node")) != "" {
		return strings.HasPrefix(outcome, fails)
	}
	return outcome == works
}
