package openstack

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Source is where the access to a cloud is kept. The files are read at each use, so that a change is seen.
type Source struct {
	// CloudsFile is the path of a clouds.yaml.
	CloudsFile string
	// Cloud is the entry in it. Default: DefaultCloud.
	Cloud string
	// CAFiles are paths of PEM bundles, by precedence: the first that exists is trusted besides the system's roots. When
	// none does, the entry's own `cacert` counts: a PEM bundle, or the path of a file that can be read. It may be a path of
	// the installer's host.
	CAFiles []string
}

// access is the content of a Source at one time.
type access struct {
	cloud       *Cloud
	roots       *x509.CertPool // nil: the system's
	fingerprint [sha256.Size]byte
}

func (s Source) read() (*access, error) {
	text, err := os.ReadFile(s.CloudsFile)
	if err != nil {
		return nil, invalid(s.CloudsFile, errors.New("cannot be read: is the credentials Secret there?"))
	}
	name := s.Cloud
	if name == "" {
		name = DefaultCloud
	}
	cloud, err := ParseClouds(text, name)
	if err != nil {
		return nil, invalid(s.CloudsFile+" (from key clouds.yaml of the credentials Secret)", err)
	}
	path, ca, err := s.readCA(cloud)
	if err != nil {
		return nil, err
	}
	ret := &access{cloud: cloud, fingerprint: sha256.Sum256(append(text, ca...))}
	if len(ca) > 0 {
		if ret.roots, err = pool(ca); err != nil {
			return nil, invalid(path, err)
		}
	}
	return ret, nil
}

// readCA returns the bundle that counts and its path; no bundle is no error.
func (s Source) readCA(cloud *Cloud) (string, []byte, error) {
	for _, path := range s.CAFiles {
		data, err := os.ReadFile(path)
		switch {
		case err == nil && len(data) > 0:
			return path, data, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", nil, invalid(path, errors.New("cannot be read"))
		}
	}
	if strings.Contains(cloud.CACertFile, "-----BEGIN") {
		return "cacert in clouds.yaml", []byte(cloud.CACertFile), nil
	}
	// Whatever keeps a path of another host from being read here, such as a folder that is closed to this user, is no fault.
	if data, err := os.ReadFile(cloud.CACertFile); err == nil {
		return cloud.CACertFile, data, nil
	}
	return "", nil, nil
}

func pool(ca []byte) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("cannot be joined to the system's roots: %w", err)
	}
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("holds no PEM certificate")
	}
	return roots, nil
}
