package node

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"text/template"

	"github.com/openstack-csi/csi-operator/test/node/supervisor"
)

//go:embed files
var files embed.FS

// values fill the placeholders of the node's files.
type values struct {
	CGroup, Cluster, Pods, Programs, ProviderID, Registry, Sandbox string
}

// writeFiles writes the files in the node's folder etc.
func (n *Node) writeFiles(network *Network) error {
	o := n.options
	etc := filepath.Join(o.Dir, "etc")
	v := values{
		CGroup: n.config.CGroup, Pods: network.pods(o.Number), Cluster: network.cluster(),
		Programs: supervisor.ProgramsPath, ProviderID: o.ProviderID, Sandbox: o.Sandbox,
		Registry: network.Registry(),
	}
	write := func(name string, content []byte) error {
		path := filepath.Join(etc, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	}
	errs := []error{
		write("hosts", fmt.Appendf(nil, "127.0.0.1 localhost\n%s %s\n",
			network.address(o.Number), o.Name)),
		write("resolv.conf", nil),
		write("passwd", []byte("root:x:0:0:root:/root:/bin/sh\n")),
		write("group", []byte("root:x:0:\n")),
		// Without it nft prints numbers of protocols. At its second full sync, kube-proxy would take
		// the rules of each Service for leftovers and delete them.
		write("protocols", []byte("tcp 6 TCP\nudp 17 UDP\nsctp 132 SCTP\n")),
		write("kubernetes/kubelet.kubeconfig", o.Kubeconfig),
		write("kubernetes/kube-proxy.kubeconfig", o.ProxyKubeconfig),
		write("kubernetes/kubelet-client-ca.crt", o.ClientCA),
	}
	for source, target := range map[string]string{
		"containerd.toml": "containerd/config.toml", "cni.conflist": "cni/net.d/10-pods.conflist",
		"kubelet.yaml": "kubernetes/kubelet.yaml", "kube-proxy.yaml": "kubernetes/kube-proxy.yaml",
		"hosts.toml": filepath.Join("containerd/certs.d", network.Registry(), "hosts.toml"),
	} {
		content, err := render(source, v)
		errs = append(errs, err, write(target, content))
	}
	// The kubelet reports the operating system of the machine, if the machine describes it.
	release, err := os.ReadFile("/etc/os-release")
	if err == nil {
		err = write("os-release", release)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing the files of node %s: %w", o.Name, err)
	}
	return nil
}

func render(name string, v values) ([]byte, error) {
	t, err := template.New(name).Option("missingkey=error").ParseFS(files, "files/"+name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, v); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Listen listens on an address in the network namespace of the node.
func (n *Node) Listen(ctx context.Context, address string) (net.Listener, error) {
	namespace, err := namespaceOf(n.pid)
	if err != nil {
		return nil, fmt.Errorf("opening the network of node %s: %w", n.options.Name, err)
	}
	defer namespace.Close()
	var listener net.Listener
	err = inNamespace(namespace, func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	return listener, err
}
