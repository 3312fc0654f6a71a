package adapter

import (
	"context"
	"time"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	// pluginTimeout limits a request to the plugin, and maxAnswer its answer in bytes.
	pluginTimeout = 10 * time.Second
	maxAnswer     = 64 << 10
)

// plugin is the path of the socket on which the plugin in this pod serves CSI.
type plugin string

func (p plugin) version(ctx context.Context) (string, error) {
	// The proxy in the environment is for requests to OpenStack.
	connection, err := grpc.NewClient("unix://"+string(p), grpc.WithNoProxy(),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // only this pod has the socket
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	answer, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	return answer.GetVendorVersion(), err
}
