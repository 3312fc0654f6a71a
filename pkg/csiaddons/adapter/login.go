package adapter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// loginFolder is the mounted Secret with the login of Manila's plugin. Kubelet updates its files.
type loginFolder string

// access is an openstack.Source.
func (f loginFolder) access() (openstack.Access, error) {
	keys, err := f.read()
	if errors.Is(err, fs.ErrNotExist) { // kubelet has replaced the files meanwhile
		keys, err = f.read()
	}
	var login *clouds.Login
	if err == nil {
		login, err = clouds.LoginOfManilaKeys(keys)
	}
	if err != nil {
		return openstack.Access{}, &openstack.Error{
			Reason: openstack.InvalidCredentials,
			Message: fmt.Sprintf("The login in folder %s, the Secret that the driver reads, cannot be "+
				"used: %v", string(f), err),
		}
	}
	return openstack.Access{Login: login}, nil
}

// read returns the files of one version of the Secret: kubelet replaces them at once, by changing
// the link ..data.
func (f loginFolder) read() (map[string]string, error) {
	folder, err := filepath.EvalSymlinks(filepath.Join(string(f), "..data"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	files, _ := filepath.Glob(filepath.Join(folder, "os-*")) // the pattern is valid
	keys := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		keys[filepath.Base(file)] = string(text)
	}
	return keys, nil
}
