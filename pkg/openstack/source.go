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
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/client-go/util/cert"
)

// maxFile is the largest file that is read, in bytes: the largest Secret or ConfigMap.
const maxFile = 1 << 20

// Source names the files or the Secret that contain clouds.yaml and CAs. It is read before each
// request, so that changes are detected.
type Source struct {
	CloudsFile string
	// Secret returns the content of a Secret that is not mounted. Its clouds.yaml replaces CloudsFile,
	// and its CA precedes CAFiles. If Secret is nil, the files are read.
	Secret func() (Secret, error)
	// Cloud is the entry of clouds.yaml. Default: DefaultCloud.
	Cloud string
	// CAFiles are paths of PEM bundles, by precedence: the first that exists is trusted in addition to
	// the system roots. If none exists, `cacert` of the entry is used: a PEM bundle, or the path of a
	// file. An unreadable path is ignored, because it may be a path of the installer's host.
	CAFiles []string
	// TrustedCAs returns the trusted CA bundle of the cluster, in PEM. Its certificates are trusted in
	// addition to all others. Invalid parts are ignored. nil means no bundle.
	TrustedCAs func() []byte
	// Observe, if it is not nil, is called after each HTTP request, from several goroutines at once.
	Observe func(Request)
}

// Secret is the content of a credentials Secret.
type Secret struct {
	// Name names the Secret in messages, such as "Secret namespace/name".
	Name string
	// Data contains CloudsKey and, for clouds with a private CA, CAKey.
	Data map[string][]byte
}

// access is the content of a Source when it was read.
type access struct {
	cloud       *Cloud
	ca          caBundle
	trusted     []byte
	observe     func(Request)
	fingerprint [sha256.Size]byte
}

// caBundle is a PEM bundle and where it was read. The zero value means no bundle.
type caBundle struct {
	source string
	pem    []byte
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
	ret := &access{cloud: cloud, observe: s.Observe}
	if ret.ca, err = s.readCA(secret, cloud); err != nil {
		return nil, err
	}
	if s.TrustedCAs != nil {
		ret.trusted = s.TrustedCAs()
	}
	ret.fingerprint = fingerprint(text, ret.ca.pem, ret.trusted)
	return ret, nil
}

// fingerprint returns a hash that changes when any of the parts changes.
func fingerprint(parts ...[]byte) (sum [sha256.Size]byte) {
	hash := sha256.New()
	for _, part := range parts {
		// Write of a hash never returns an error.
		_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = hash.Write(part)
	}
	copy(sum[:], hash.Sum(nil))
	return sum
}

// readSecret returns nil if files are read instead.
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
		return nil, nil, invalid(fmt.Sprintf("%s (key %s of the credentials Secret) %v", s.CloudsFile,
			CloudsKey, err))
	}
	return text, cloud, nil
}

// Entry returns the entry named cloud of the Secret's clouds.yaml; see ParseClouds. Errors contain
// the name of the Secret.
func (s Secret) Entry(cloud string) (*Cloud, error) {
	text, found := s.Data[CloudsKey]
	if !found {
		return nil, fmt.Errorf("%s has no key %s%s", s.Name, CloudsKey,
			listed("its keys are", slices.Sorted(maps.Keys(s.Data))))
	}
	entry, err := ParseClouds(text, cloud)
	if err != nil {
		return nil, fmt.Errorf("key %s of %s %w", CloudsKey, s.Name, err)
	}
	return entry, nil
}

// readCA returns the CA bundle of highest precedence. A missing bundle is not an error.
func (s Source) readCA(secret *Secret, cloud *Cloud) (caBundle, error) {
	if secret != nil && len(secret.Data[CAKey]) > 0 {
		return caBundle{fmt.Sprintf("key %s of %s", CAKey, secret.Name), secret.Data[CAKey]}, nil
	}
	for _, path := range s.CAFiles {
		data, err := readFile(path)
		switch {
		case err == nil && len(data) > 0:
			source := fmt.Sprintf("%s (key %s of the credentials Secret, or the ConfigMap with the "+
				"cloud's CA)", path, CAKey)
			return caBundle{source, data}, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return caBundle{}, invalid(fmt.Sprintf("%s %v", path, err))
		}
	}
	if strings.Contains(cloud.CACertFile, "-----BEGIN") {
		return caBundle{"cacert in clouds.yaml", []byte(cloud.CACertFile)}, nil
	}
	// The path may belong to another host, so no error of reading it counts.
	if data, err := readFile(cloud.CACertFile); err == nil {
		return caBundle{cloud.CACertFile, data}, nil
	}
	return caBundle{}, nil
}

// roots returns the certificates to trust; nil means the system roots.
func (a *access) roots() (*x509.CertPool, error) {
	if len(a.ca.pem) == 0 && len(a.trusted) == 0 {
		return nil, nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		return nil, invalid(fmt.Sprintf("the system roots cannot be read: %v", err))
	}
	if len(a.ca.pem) > 0 {
		if err := CheckCA(a.ca.pem); err != nil {
			return nil, invalid(fmt.Sprintf("%s %v", a.ca.source, err))
		}
		roots.AppendCertsFromPEM(a.ca.pem)
	}
	roots.AppendCertsFromPEM(a.trusted)
	return roots, nil
}

// fileError is the reason why a file cannot be read. Its message follows the path.
type fileError struct {
	message string
	cause   error
}

func (e *fileError) Error() string { return e.message }
func (e *fileError) Unwrap() error { return e.cause }

// readFile reads a regular file of at most maxFile bytes. Paths in clouds.yaml may name devices.
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
		return nil, &fileError{"cannot be read: it is not a regular file", nil}
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

// CheckCA returns an error unless both the operator and the CSI drivers can use the bundle. A
// driver does not start if a single certificate of the bundle cannot be parsed. The text of the
// error follows the name of the source of the bundle.
func CheckCA(bundle []byte) error {
	if !utf8.Valid(bundle) {
		return errors.New("is not UTF-8 text: a CA bundle is one or more certificates in PEM")
	}
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return errors.New("contains no PEM certificate, or one that cannot be parsed")
	}
	return nil
}
