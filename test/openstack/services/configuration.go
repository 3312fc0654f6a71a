package services

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

// data contains the configuration of the services, and the Python programs that run them.
//
//go:embed data
var data embed.FS

// settings are the values in the configuration files.
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

// configuration returns the configuration file of a service.
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

// script returns the file of a Python program.
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
	rendered, err = s.with(rendered).execute(string(common))
	return []byte(rendered), err
}

// with returns the settings with the own part of a service.
func (s settings) with(own string) settings {
	copied := s
	copied.Own = own
	return copied
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
