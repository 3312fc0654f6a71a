package nodeprobe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Node is what the probes use of a node.
type Node struct {
	// Files are those of the node.
	Files fs.FS
	// Dial opens connections from the network of the node.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// PodFolder is the folder of the pod, if that of the kubelet is where the drivers expect it.
	PodFolder string
	// Servers are NFS servers to connect to, after those of the mounts of the node.
	Servers []string
}

const (
	// timeout limits the probes, which run at the same time.
	timeout = 5 * time.Second
	// maxMetadata limits what is read of metadata, and maxDrive of a config drive, in bytes.
	maxMetadata, maxDrive = 1 << 20, 16 << 20

	metadataURL = "http://169.254.169.254/openstack/latest/meta_data.json"
	nfsPort     = "2049"
)

// Probe runs all probes.
func (n Node) Probe(ctx context.Context) (r Result) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var running sync.WaitGroup
	for _, probe := range []func(){
		func() { r.NFS = n.hasNFS() },
		func() { r.SELinux = n.text("sys/fs/selinux/enforce") == "1" },
		func() { _, err := fs.Stat(n.Files, n.PodFolder); r.Kubelet = err == nil },
		func() { r.ConfigDrive = n.configDrive() },
		func() { r.Metadata = n.metadata(ctx) },
		func() { r.DMI = idOf(n.text("sys/class/dmi/id/product_uuid")) },
		func() { r.Servers = n.servers(ctx) },
	} {
		running.Go(probe)
	}
	running.Wait()
	return r
}

// text returns the content of a small file, "" if it cannot be read.
func (n Node) text(name string) string {
	text, _ := fs.ReadFile(n.Files, name) // then it is as if there was none
	return strings.TrimSpace(string(text))
}

// idOf returns an ID as OpenStack writes it, "" if the text is none.
func idOf(text string) string {
	if text = strings.ToLower(text); isID(text) {
		return text
	}
	return ""
}

// hasNFS returns whether the client is in the kernel, or a module that mount loads.
func (n Node) hasNFS() bool {
	modules := path.Join("lib/modules", n.text("proc/sys/kernel/osrelease"))
	return strings.Contains(n.text("proc/filesystems"), "\tnfs4") ||
		strings.Contains(n.text(modules+"/modules.dep"), "/nfsv4.ko") ||
		strings.Contains(n.text(modules+"/modules.builtin"), "/nfsv4.ko")
}

// configDrive finds the ID without mounting: Nova writes it first into meta_data.json, and neither
// of the two file systems compresses it.
func (n Node) configDrive() string {
	drive, err := n.Files.Open("dev/disk/by-label/config-2") // iso9660
	if err != nil {
		drive, err = n.Files.Open("dev/disk/by-label/CONFIG-2") // vfat
	}
	if err != nil {
		return ""
	}
	defer drive.Close()
	content, _ := io.ReadAll(io.LimitReader(drive, maxDrive)) // what was read may contain it
	found := regexp.MustCompile(`\{"uuid": *"([0-9a-f-]{36})"`).FindSubmatch(content)
	if found == nil || !isID(string(found[1])) {
		return Unknown
	}
	return string(found[1])
}

// metadata sends the request of the drivers to the metadata service.
func (n Node) metadata(ctx context.Context) string {
	client := http.Client{Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadataURL, http.NoBody)
	if err != nil {
		return ""
	}
	answer, err := client.Do(request)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	var found struct{ UUID string }
	_ = json.NewDecoder(io.LimitReader(answer.Body, maxMetadata)).Decode(&found) // then it is ""
	return idOf(found.UUID)
}

// servers connects to the servers of mounts and the given ones, at most MaxServers.
func (n Node) servers(ctx context.Context) map[string]string {
	var all []string
	for line := range strings.Lines(n.text("proc/1/mountinfo")) {
		_, mount, _ := strings.Cut(line, " - nfs") // its type, source and options follow
		_, address, _ := strings.Cut(mount, ",addr=")
		all = append(all, strings.TrimSpace(strings.Split(address, ",")[0]))
	}
	slices.Sort(all)
	answers, lock, running := map[string]string{}, sync.Mutex{}, sync.WaitGroup{}
	var chosen []string
	for _, address := range append(all, n.Servers...) {
		if len(chosen) == MaxServers || !IsAddress(address) || slices.Contains(chosen, address) {
			continue
		}
		chosen = append(chosen, address)
		running.Go(func() {
			connection, err := n.Dial(ctx, "tcp", net.JoinHostPort(address, nfsPort))
			if err == nil {
				_ = connection.Close()
			}
			lock.Lock()
			defer lock.Unlock()
			answers[address] = answerOf(err)
		})
	}
	running.Wait()
	return answers
}

func answerOf(err error) string {
	late, _ := errors.AsType[net.Error](err)
	switch {
	case err == nil:
		return Reached
	case errors.Is(err, syscall.ECONNREFUSED):
		return refused
	case late != nil && late.Timeout():
		return timedOut
	}
	return failed
}
