// Package nodeprobe finds out on a node whether volumes can be used there. It sends no request to
// Kubernetes, and none with a login to OpenStack. The operators contain it as a command, which pods
// of `kubectl openstack-csi check --nodes` run; pkg/kubectl parses what they report.
package nodeprobe

import (
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// MaxServers is how many NFS servers a node connects to.
const MaxServers = 16

// Unknown is the ID of the server in a config drive that cannot be read.
const Unknown = "unknown"

// The answers of NFS servers.
const (
	Reached  = "reached"
	timedOut = "timeout"
	refused  = "refused"
	failed   = "failed"
)

// Result is what a node reports.
type Result struct {
	// NFS says that the kernel has a client of NFS, or can load it.
	NFS bool `json:"nfs"`
	// SELinux says that SELinux is enforced.
	SELinux bool `json:"selinux"`
	// Kubelet says that the folder of the kubelet is where the drivers expect it.
	Kubelet bool `json:"kubelet"`
	// ConfigDrive, Metadata and DMI are the ID of the server in OpenStack: in its config drive, of the
	// metadata service, and in the tables of the machine. "" means that there is none.
	ConfigDrive string `json:"configDrive"`
	Metadata    string `json:"metadata"`
	DMI         string `json:"dmi"`
	// Servers are the answers of NFS servers, at most MaxServers. Their addresses are short.
	Servers map[string]string `json:"servers"`
}

// Parse returns what a node reports in a termination message. A node is not trusted.
func Parse(text string) (r Result, err error) {
	const most = 4096 // as Kubernetes truncates it
	decoder := json.NewDecoder(strings.NewReader(text[:min(len(text), most)]))
	decoder.DisallowUnknownFields()
	valid := decoder.Decode(&r) == nil && len(r.Servers) <= MaxServers && isID(r.Metadata) &&
		(r.ConfigDrive == Unknown || isID(r.ConfigDrive)) && isID(r.DMI)
	for address, answer := range r.Servers {
		known := slices.Contains([]string{Reached, timedOut, refused, failed}, answer)
		valid = valid && known && IsAddress(address)
	}
	if _, err := decoder.Token(); !valid || !errors.Is(err, io.EOF) {
		return Result{}, errors.New("its pod reported what the check never reports")
	}
	return r, nil
}

// IsAddress returns whether a text is an address, or a name of at most 64 characters.
func IsAddress(text string) bool {
	return regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.:%-]{0,63}$`).MatchString(text)
}

func isID(text string) bool {
	return regexp.MustCompile(`^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})?$`).MatchString(text)
}
