package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/cluster"
	"github.com/openstack-csi/csi-operator/test/devcluster/controlplane"
	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

const headerTimeout = 10 * time.Second

type running struct {
	cloud   testcloud.Cloud
	cluster *cluster.Cluster // nil if only the cloud runs
}

// remote returns a command that changes the running devcluster. The process of the user sends the
// command line to the process of the devcluster, which executes it and returns the output.
func (f *flags) remote(
	use, short string, args cobra.PositionalArgs,
	change func(cmd *cobra.Command, r *running, args []string) error,
) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.running != nil {
				return change(cmd, f.running, args)
			}
			p, err := f.places()
			if err != nil {
				return err
			}
			out, err := send(cmd.Context(), p.dir.Control(), f.args)
			cmd.Print(out)
			return err
		},
	}
}

// send executes a command in the devcluster that wrote the file, and returns its output.
func send(ctx context.Context, file string, args []string) (string, error) {
	address, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("no devcluster runs here: %w", err)
	}
	body, err := json.Marshal(args)
	if err != nil {
		return "", fmt.Errorf("encoding the command: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		strings.TrimSpace(string(address)), bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("creating the request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("sending the command to the devcluster: %w", err)
	}
	defer response.Body.Close()
	out, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("reading the output: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", errors.New(strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// serve executes the commands of send until the returned function is called. It writes its address
// to the file.
func (r *running) serve(ctx context.Context, file string) (stop func(), err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for commands: %w", err)
	}
	if err := paths.WriteFile(file, []byte("http://"+listener.Addr().String()+"\n")); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: r, ReadHeaderTimeout: headerTimeout}
	go func() { _ = server.Serve(listener) }() // it returns when the server is closed
	return func() { _, _ = os.Remove(file), server.Close() }, nil
}

// ServeHTTP implements http.Handler.
func (r *running) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var args []string
	var out bytes.Buffer
	err := json.NewDecoder(request.Body).Decode(&args)
	if err == nil {
		root := newRoot(r, args) //nolint:contextcheck // commands get it from ExecuteContext
		root.SetOut(&out)
		err = root.ExecuteContext(request.Context())
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	_, _ = out.WriteTo(w) // this fails only if the client is gone
}

func newAPI(f *flags) *cobra.Command {
	var side, how string
	stop := newChange(f, "stop", "Stop an API server",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.StopAPI(ctx, flavour.Side(side), guest, controlplane.How(how))
		})
	stop.Long = "Stop an API server. With --how=refuse connections are refused, " +
		"with --how=hang requests hang.\n" +
		"The other components of its control plane are stopped too."
	stop.Flags().StringVar(&how, "how", string(controlplane.Refuse), controlplane.Ways())
	start := newChange(f, "start", "Start the API server again, on the same port and with its data",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.StartAPI(ctx, flavour.Side(side), guest)
		})
	parent := group("api", "Stop and start an API server of a running cluster", stop, start)
	parent.PersistentFlags().StringVar(&side, "side", string(flavour.ControlPlane),
		fmt.Sprintf("%s (also in flavour %s) or %s",
			flavour.ControlPlane, flavour.Standalone, flavour.Guest))
	return parent
}

func newGuest(f *flags) *cobra.Command {
	return group("guest", "Change a guest cluster", newChange(f, "rotate-kubeconfig",
		"Issue a new certificate for the kubeconfig in the control plane of a guest cluster",
		func(ctx context.Context, c *cluster.Cluster, guest string) error {
			return c.RotateGuestKubeconfig(ctx, guest)
		}))
}

// newChange returns a command that changes the running cluster, or one of its guest clusters.
func newChange(
	f *flags, use, short string,
	change func(ctx context.Context, c *cluster.Cluster, guest string) error,
) *cobra.Command {
	var guest string
	cmd := f.remote(use, short, cobra.NoArgs,
		func(cmd *cobra.Command, r *running, _ []string) error {
			if r.cluster == nil {
				return errNoCluster()
			}
			return change(cmd.Context(), r.cluster, guest)
		})
	cmd.Flags().StringVar(&guest, "guest", "guest-1", "the guest cluster")
	return cmd
}

func errNoCluster() error { return errors.New("only an OpenStack runs here, no cluster") }
