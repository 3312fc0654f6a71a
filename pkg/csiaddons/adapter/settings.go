package adapter

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// Settings are the values of the flags.
type Settings struct {
	// Driver is Cinder or Manila.
	Driver Driver
	// Service is the service of the driver that the pod contains.
	Service Service
	// Address is the path of the socket to serve on.
	Address string
	// StagingPath is the folder below which kubelet stages volumes.
	StagingPath string
}

// Driver is a driver by the value of the flag --driver.
type Driver string

// The drivers.
const (
	Cinder Driver = "cinder"
	Manila Driver = "manila"
)

// Service is the service of CSI that a pod of a driver contains.
type Service string

// The services.
const (
	Controller Service = "controller"
	Node       Service = "node"
)

// Flags are the flags of the command.
type Flags struct {
	settings        Settings
	driver, service string
}

// AddTo registers the flags.
func (f *Flags) AddTo(set *pflag.FlagSet) {
	set.StringVar(&f.driver, "driver", "", "Driver to serve: cinder or manila.")
	set.StringVar(&f.service, "service", "",
		"Service of the driver in this pod: controller or node.")
	set.StringVar(&f.settings.Address, "csi-addons-address", "/run/csi-addons/socket",
		"Path of the socket to serve on.")
	set.StringVar(&f.settings.StagingPath, "staging-path", "/var/lib/kubelet/plugins/kubernetes.io/csi",
		"Folder below which kubelet stages volumes.")
}

// Load returns the settings, or an error that names every problem.
func (f *Flags) Load() (*Settings, error) {
	settings := f.settings
	settings.Driver, settings.Service = Driver(f.driver), Service(f.service)
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if settings.Driver != Cinder && settings.Driver != Manila {
		fault("flag --driver is %q: it must be %s or %s", f.driver, Cinder, Manila)
	}
	if settings.Service != Controller && settings.Service != Node {
		fault("flag --service is %q: it must be %s or %s", f.service, Controller, Node)
	}
	for name, path := range map[string]*string{
		"csi-addons-address": &settings.Address, "staging-path": &settings.StagingPath,
	} {
		*path = strings.TrimPrefix(*path, "unix://")
		if !filepath.IsAbs(*path) {
			fault("flag --%s is %q: it must be an absolute path", name, *path)
		}
		*path = filepath.Clean(*path)
	}
	if len(faults) > 0 {
		return nil, errors.New("settings: " + strings.Join(faults, "; "))
	}
	return &settings, nil
}
