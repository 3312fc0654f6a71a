package openstack

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// maxFile bounds what is read of a file. A Secret or a ConfigMap holds no more.
const maxFile = 1 << 20

// Source is where the access to a cloud is kept. It is read at each use, so that a change is detected.
type Source struct {
	// CloudsFile is the path of a clouds.yaml.
	CloudsFile string
	// Secret returns the content of a Secret that is not mounted. Its clouds.yaml replaces CloudsFile, and its CA precedes
	// CAFiles. nil reads the files.
	Secret func() (Secret, error)
	// Cloud is the entry of clouds.yaml. Default: DefaultCloud.
	Cloud string
	// CAFiles are paths of PEM bundles, by precedence: the first that exists is trusted besides the system's roots. When
	// none does, the entry's own `cacert` counts: a PEM bundle, or the path of a file that can be read. It may be a path of
	// the installer's host.
	CAFiles []string
	// TrustedCAs returns the PEM certificates that the cluster trusts. They are trusted besides all others. What is no
	// certificate is ignored: whoever writes the bundle checks it. nil is none.
	TrustedCAs func() []byte
}

// Secret is the content of a credentials Secret.
type Secret struct {
	// Name is the Secret's in messages, such as "Secret namespace/name".
	Name string
	// Data holds CloudsKey and, for clouds with a private CA, CAKey.
	Data map[string][]byte
}

// The keys of a credentials Secret.
const (
	CloudsKey = "clouds.yaml"
	CAKey     = "cacert"
)

// access is the content of a Source at one time.
type access struct {
	cloud       *Cloud
	ca          caBundle
	trusted     []byte
	fingerprint [sha256.Size]byte
}

// caBundle is a PEM bundle and where it is from. An empty one is none.
type caBundle struct {
	place string
	pem   []byte
}

func (s Source) read() (*access, error) {
	secret, err := s.readSecret()
	if err != nil {
		return nil, err
	}
	text, cloud, err := s.readClouds(secret)
	if err != nil {
		return nil, err
	}
	ret := &access{cloud: cloud}
	if ret.ca, err = s.readCA(secret, cloud); err != nil {
		return nil, err
	}
	if s.TrustedCAs != nil {
		ret.trusted = s.TrustedCAs()
	}
	ret.fingerprint = fingerprint(text, ret.ca.pem, ret.trusted)
	return ret, nil
}

// fingerprint is different when any of the parts is.
func fingerprint(parts ...[]byte) (sum [sha256.Size]byte) {
	hash := sha256.New()
	for _, part := range parts {
		// A hash takes all that is written to it.
		_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = hash.Write(part)
	}
	copy(sum[:], hash.Sum(nil))
	return sum
}

// readSecret returns nil where files are read instead.
func (s Source) readSecret() (*Secret, error) {
	if s.Secret == nil {
		return nil, nil
	}
	secret, err := s.Secret()
	if err != nil {
		return nil, &Error{InvalidCredentials, err.Error()}
	}
	return &secret, nil
}

// readClouds returns the text of clouds.yaml and the entry in it.
func (s Source) readClouds(secret *Secret) ([]byte, *Cloud, error) {
	name := cmp.Or(s.Cloud, DefaultCloud)
	if secret != nil {
		cloud, err := secret.Entry(name)
		if err != nil {
			return nil, nil, invalid(err.Error())
		}
		return secret.Data[CloudsKey], cloud, nil
	}
	text, err := readFile(s.CloudsFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, missing(s.CloudsFile)
	case err != nil:
		return nil, nil, invalid(fmt.Sprintf("%s %v", s.CloudsFile, err))
	}
	cloud, err := ParseClouds(text, name)
	if err != nil {
		return nil, nil, invalid(fmt.Sprintf("%s (key %s of the credentials Secret) %v", s.CloudsFile, CloudsKey, err))
	}
	return text, cloud, nil
}

// Entry reads the entry named cloud from the Secret's clouds.yaml, as ParseClouds does. Errors start with the Secret's name.
func (s Secret) Entry(cloud string) (*Cloud, error) {
	text, found := s.Data[CloudsKey]
	if !found {
		return nil, fmt.Errorf("%s has no key %s%s", s.Name, CloudsKey, listed("its keys are", sortedKeys(s.Data)))
	}
	entry, err := ParseClouds(text, cloud)
	if err != nil {
		return nil, fmt.Errorf("key %s of %s %w", CloudsKey, s.Name, err)
	}
	return entry, nil
}

// readCA returns the bundle that counts; no bundle is no error.
func (s Source) readCA(secret *Secret, cloud *Cloud) (caBundle, error) {
	if secret != nil && len(secret.Data[CAKey]) > 0 {
		return caBundle{fmt.Sprintf("key %s of %s", CAKey, secret.Name), secret.Data[CAKey]}, nil
	}
	for _, path := range s.CAFiles {
		data, err := readFile(path)
		switch {
		case err == nil && len(data) > 0:
			return caBundle{fmt.Sprintf("%s (key %s of the credentials Secret, or the ConfigMap with the cloud's CA)", path, CAKey), data}, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return caBundle{}, invalid(fmt.Sprintf("%s %v", path, err))
		}
	}
	if strings.Contains(cloud.CACertFile, "-----BEGIN") {
		return caBundle{"cacert in clouds.yaml", []byte(cloud.CACertFile)}, nil
	}
	// Whatever keeps a path of another host from being read here, such as a folder that is closed to this user, is no fault.
	if data, err := readFile(cloud.CACertFile); err == nil {
		return caBundle{cloud.CACertFile, data}, nil
	}
	return caBundle{}, nil
}

// roots returns the certificates to trust; nil is the system's.
func (a *access) roots() (*x509.CertPool, error) {
	if len(a.ca.pem) == 0 && len(a.trusted) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, invalid(fmt.Sprintf("the system's roots cannot be read: %v", err))
	}
	if len(a.ca.pem) > 0 {
		if err := CheckCA(a.ca.pem); err != nil {
			return nil, invalid(fmt.Sprintf("%s %v", a.ca.place, err))
		}
		roots.AppendCertsFromPEM(a.ca.pem)
	}
	roots.AppendCertsFromPEM(a.trusted)
	return roots, nil
}

// fileError says why a file cannot be read, in words that follow its path.
type fileError struct {
	words string
	cause error
}

func (e *fileError) Error() string { return e.words }
func (e *fileError) Unwrap() error { return e.cause }

// readFile reads a regular file within bounds: paths in clouds.yaml may lead to devices.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &fileError{"does not exist", err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &fileError{"cannot be read: permission denied", err}
	case err != nil:
		return nil, &fileError{"cannot be read", err}
	case info.IsDir():
		return nil, &fileError{"cannot be read: it is a directory", nil}
	case !info.Mode().IsRegular():
		return nil, &fileError{"cannot be read: it is no regular file", nil}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, &fileError{"cannot be read", err}
	}
	defer func() { _ = file.Close() }() // nothing was written
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return nil, &fileError{"cannot be read", err}
	case len(data) > maxFile:
		return nil, &fileError{fmt.Sprintf("is larger than %d KiB", maxFile>>10), nil}
	}
	return data, nil
}
