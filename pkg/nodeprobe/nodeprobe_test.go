package nodeprobe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

const (
	driveID = "0b1b7a2e-6d2a-4c34-9d0b-f2a1c3d4e5f6"
	otherID = "9c1de6b4-5f9a-4c53-8f0e-d2b7a1c4e6f3"
)

// part is one way a part of a node can be: the content of a file, "" for none, and its report.
type part struct {
	name, content string
	apply         func(*Result)
}

func parts() [][]part {
	const modules = "lib/modules/6.1.0/modules."
	return [][]part{
		{
			{"proc/filesystems", "nodev\tsysfs\nnodev\tnfs\n", func(*Result) {}},
			{"proc/filesystems", "nodev\tnfs\nnodev\tnfs4\n", func(r *Result) { r.NFS = true }},
			{
				modules + "dep", "kernel/fs/nfs/nfsv4.ko.xz: kernel/fs/nfs/nfs.ko.xz\n",
				func(r *Result) { r.NFS = true },
			},
			{modules + "builtin", "kernel/fs/nfs/nfsv4.ko\n", func(r *Result) { r.NFS = true }},
			{modules + "dep", "kernel/fs/nfsd/nfsd.ko:\n", func(*Result) {}},
		},
		{
			{"sys/fs/selinux/enforce", "", func(*Result) {}},
			{"sys/fs/selinux/enforce", "0", func(*Result) {}},
			{"sys/fs/selinux/enforce", "1", func(r *Result) { r.SELinux = true }},
		},
		{
			{"var/lib/kubelet/pods/uid/etc-hosts", "", func(*Result) {}},
			{"var/lib/kubelet/pods/uid/etc-hosts", "x", func(r *Result) { r.Kubelet = true }},
		},
		{
			{"dev/disk/by-label/config-2", "", func(*Result) {}},
			{"dev/disk/by-label/config-2", strings.Repeat("\x00", 4096) + `{"uuid": "` + driveID +
				`", "name": "{\"uuid\": \"` + otherID, func(r *Result) { r.ConfigDrive = driveID }},
			{
				"dev/disk/by-label/CONFIG-2", `{"uuid": "` + driveID + `"}`,
				func(r *Result) { r.ConfigDrive = driveID },
			},
			{"dev/disk/by-label/config-2", "broken", func(r *Result) { r.ConfigDrive = Unknown }},
			{
				"dev/disk/by-label/config-2", `{"uuid": "` + strings.Repeat("-", 36) + `"}`,
				func(r *Result) { r.ConfigDrive = Unknown },
			},
		},
		{
			{"metadata", "", func(*Result) {}},
			{
				"metadata", `{"uuid": "` + otherID + `", "name": "a"}`,
				func(r *Result) { r.Metadata = otherID },
			},
			{"metadata", `{"uuid": "i-0123"}`, func(*Result) {}},
			{"metadata", `<html>`, func(*Result) {}},
			{
				"metadata", `{"name": "` + strings.Repeat("a", maxMetadata) + `", "uuid": "` + otherID + `"}`,
				func(*Result) {},
			},
		},
		{
			{"sys/class/dmi/id/product_uuid", "Not Settable", func(*Result) {}},
			{
				"sys/class/dmi/id/product_uuid", strings.ToUpper(driveID) + "\n",
				func(r *Result) { r.DMI = driveID },
			},
		},
		{
			{"proc/1/mountinfo", "36 35 98:0 / / rw - ext4 /dev/root rw\n", func(*Result) {}},
			{"proc/1/mountinfo", `40 36 0:55 / /a rw x:9 - nfs4 s:/a rw,clientaddr=192.0.2.9,addr=192.0.2.1
41 36 0:56 / /b rw - nfs s:/b rw,mountaddr=192.0.2.8,addr=2001:db8::1,local_lock=none
42 36 0:57 / /c rw - nfs4 s:/c rw,addr=192.0.2.1
43 36 0:58 / /d rw - nfsd nfsd rw
`, func(r *Result) {
				r.Servers = map[string]string{"192.0.2.1": Reached, "2001:db8::1": refused}
			}},
		},
	}
}

// dialer answers as the servers of the test do, and connects to the metadata service.
func dialer(metadata string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		switch address {
		case "169.254.169.254:80":
			return new(net.Dialer).DialContext(ctx, network, metadata)
		case "192.0.2.1:2049":
			one, other := net.Pipe()
			_ = other.Close()
			return one, nil
		case "[2001:db8::1]:2049":
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		case "late.example:2049":
			return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}
		return nil, errors.New("no route to host")
	}
}

// probe returns what a node reports that consists of parts, and what it should report.
func probe(t *testing.T, chosen []part) (got, want Result) {
	t.Helper()
	want.Servers = map[string]string{}
	metadata, files := "", fstest.MapFS{"proc/sys/kernel/osrelease": {Data: []byte("6.1.0\n")}}
	for _, one := range chosen {
		if one.apply(&want); one.name == "metadata" {
			metadata = one.content
		} else if one.content != "" {
			files[one.name] = &fstest.MapFile{Data: []byte(one.content)}
		}
	}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/openstack/latest/meta_data.json" || metadata == "" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(metadata))
	}))
	defer service.Close()
	return Node{
		Files: files, Dial: dialer(service.Listener.Addr().String()),
		PodFolder: "var/lib/kubelet/pods/uid",
	}.Probe(t.Context()), want
}

// Each node consists of a random part of each kind. What it reports is accepted.
func TestProbe(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same nodes each time
	for range 100 {
		var chosen []part
		for _, kind := range parts() {
			chosen = append(chosen, kind[random.IntN(len(kind))])
		}
		got, want := probe(t, chosen)
		assert.Assert(t, is.DeepEqual(got, want))
		text, err := json.Marshal(got)
		assert.NilError(t, err)
		parsed, err := Parse(string(text) + "\n")
		assert.NilError(t, err, string(text))
		assert.Check(t, is.DeepEqual(parsed, got))
	}
}

// A node connects to at most 16 servers, first to its own. The largest report fits.
func TestServersAreLimited(t *testing.T) {
	t.Parallel()
	var mounts strings.Builder
	for i := range 10 {
		fmt.Fprintf(&mounts, "4%d 36 0:5%[1]d / /%[1]d rw - nfs4 s:/ rw,addr=192.0.2.%[1]d\n", i)
	}
	node := Node{Dial: dialer(""), Files: fstest.MapFS{"proc/1/mountinfo": {
		Data: []byte(mounts.String()),
	}}, Servers: []string{"late.example", "192.0.2.1", "no address!", "-a"}}
	for i := range 20 {
		node.Servers = append(node.Servers, fmt.Sprintf("%064d", i))
	}
	r := node.Probe(t.Context())
	assert.Check(t, len(r.Servers) == MaxServers && r.Servers["192.0.2.1"] == Reached &&
		r.Servers["192.0.2.9"] == failed && r.Servers["late.example"] == timedOut &&
		r.Servers[fmt.Sprintf("%064d", 4)] == failed, "%v", r.Servers)
	text, err := json.Marshal(r)
	assert.NilError(t, err)
	_, err = Parse(string(text))
	assert.NilError(t, err)
}

// A node is not trusted.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	valid, err := json.Marshal(Result{Servers: map[string]string{"192.0.2.1": Reached}})
	assert.NilError(t, err)
	many := Result{Servers: map[string]string{}}
	for i := range MaxServers + 1 {
		many.Servers[fmt.Sprint(i)] = Reached
	}
	tooMany, err := json.Marshal(many)
	assert.NilError(t, err)
	for _, text := range []string{
		"", "null null", "[]", "{", `{"nfs": 1}`, `{"token": "a"}`, `{"dmi": "a"}`, `{"dmi": "unknown"}`,
		`{"metadata": "\u001b[31m"}`, `{"configDrive": "x"}`, `{"servers": {"192.0.2.1": "fine"}}`,
		`{"servers": {"a b": "reached"}}`, string(valid) + "x", string(valid) + string(valid),
		string(tooMany), strings.Repeat(" ", 4096) + string(valid),
	} {
		_, err := Parse(text)
		assert.Check(t, err != nil, text)
	}
}
