package services

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// data contains the configuration of the services, and the Python programs that run them.
//
//go:embed data
var data embed.FS

type settings struct {
	// Dir is the folder with all files of the services.
	Dir string
	// AuthURL is the URL of Keystone, with /v3.
	AuthURL  string
	Password string
	// TokenTTL is the lifetime of a token, BriefTTL that of a token of keystone-brief.
	TokenTTL, BriefTTL time.Duration
	// Own is the part of a configuration that only one service has.
	Own string
}

// Database returns the file of a database.
func (s settings) Database(name string) string {
	return filepath.Join(s.Dir, "db", name+".sqlite")
}

func (s settings) configuration(name string) string {
	if name == brief {
		// A later file overrides an earlier one.
		return s.configuration(keystone) + ";" + s.script("keystone/brief.conf")
	}
	return filepath.Join(s.Dir, name, name+".conf")
}

// program returns the program of a process.
func program(name string) string {
	if name == brief {
		return keystone
	}
	return name
}

func (s settings) script(name string) string { return filepath.Join(s.Dir, name) }

// write writes all files of the services. A file NAME/NAME.conf is a template.
func (s settings) write() error {
	for _, folder := range []string{"db", "fernet", "lib", "lock", "log"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, folder), 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(s.Dir, "policy.yaml"), []byte("{}\n"), 0o600); err != nil {
		return err
	}
	files, err := fs.Sub(data, "data")
	if err != nil {
		return err
	}
	return fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(s.Dir, path), 0o700)
		}
		text, err := s.render(files, path)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", path, err)
		}
		return os.WriteFile(filepath.Join(s.Dir, path), text, 0o600)
	})
}

// render returns the content of a file. The configuration of each service but Keystone is that of
// service.conf, which contains the own part of the service.
func (s settings) render(files fs.FS, path string) ([]byte, error) {
	text, err := fs.ReadFile(files, path)
	if err != nil || !strings.HasSuffix(path, ".conf") {
		return text, err
	}
	rendered, err := s.execute(string(text))
	if err != nil || filepath.Dir(path) == keystone || path == commonConfiguration {
		return []byte(rendered), err
	}
	common, err := fs.ReadFile(files, commonConfiguration)
	if err != nil {
		return nil, err
	}
	complete := s
	complete.Own = rendered
	rendered, err = complete.execute(string(common))
	return []byte(rendered), err
}

// commonConfiguration is the file with what the configurations of the services have in common.
const commonConfiguration = "service.conf"

func (s settings) execute(text string) (string, error) {
	parsed, err := template.New("").Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, s)
	return out.String(), err
}

// createDatabases creates the databases of all services side by side, and the secrets of Keystone.
func (s settings) createDatabases(ctx context.Context) error {
	group, creating := errgroup.WithContext(ctx)
	for name, steps := range map[string][][]string{
		keystone: s.keystoneSteps(),
		manila:   {{s.script("manila_tables.py"), s.configuration(manila)}},
		cinder:   {s.manage(cinder, "db", "sync")},
		nova:     s.novaSteps(),
	} {
		group.Go(func() error {
			for _, arguments := range steps {
				if err := s.python(creating, name+"-database", nil, arguments...); err != nil {
					return fmt.Errorf("creating the databases of %s: %w", name, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	files, err := filepath.Glob(s.Database("*"))
	if err != nil {
		return err
	}
	return s.python(ctx, "databases", nil, append([]string{s.script("wal.py")}, files...)...)
}

// manage returns the arguments of a management command.
func (s settings) manage(name string, arguments ...string) []string {
	return append([]string{s.script("manage.py"), name, s.configuration(name)}, arguments...)
}

func (s settings) keystoneSteps() [][]string {
	owner := []string{
		"--keystone-user", fmt.Sprint(os.Getuid()), "--keystone-group", fmt.Sprint(os.Getgid()),
	}
	return [][]string{
		s.manage(keystone, "db_sync"),
		s.manage(keystone, append([]string{"fernet_setup"}, owner...)...),
		s.manage(keystone, "bootstrap", "--bootstrap-password", s.Password,
			"--bootstrap-region-id", simulator.DefaultRegion, "--bootstrap-public-url", s.AuthURL,
			"--bootstrap-internal-url", s.AuthURL, "--bootstrap-admin-url", s.AuthURL),
	}
}

// novaSteps create the database of the API, and those of the two cells that Nova requires.
func (s settings) novaSteps() [][]string {
	url := func(name string) string { return "sqlite:///" + s.Database(name) }
	return [][]string{
		s.manage(nova, "api_db", "sync"),
		s.manage(nova, "cell_v2", "map_cell0", "--database_connection", url("nova_cell0")),
		s.manage(nova, "cell_v2", "create_cell", "--name", "cell1", "--transport-url", "fake:/",
			"--database_connection", url("nova_cell1")),
		s.manage(nova, "db", "sync"),
		s.manage(nova, "--config-file", s.script("nova/cell1.conf"), "db", "sync", "--local_cell"),
	}
}
