package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
)

const (
	// pageSize is the number of PersistentVolumes in one answer of the API server, and maxPage the
	// maximum size of an answer in bytes.
	pageSize = 250
	maxPage  = 32 << 20
	// maxPages and maxVolumes limit the PersistentVolumes of the cluster and of the driver.
	maxPages    = 1000
	maxVolumes  = 10_000
	pageTimeout = 30 * time.Second
)

// volumes lists PersistentVolumes. It decodes only what a fence needs: client-go's clients would
// need several times the memory.
type volumes struct {
	// driver is the name of the CSI driver, and kubeconfig the path of a kubeconfig; "" means the
	// identity of the pod.
	driver, kubeconfig string
}

// volumePage is a part of a list of PersistentVolumes.
type volumePage struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Continue string `json:"continue"`
	} `json:"metadata"`
	Items []struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			CSI struct {
				Driver     string            `json:"driver"`
				Attributes map[string]string `json:"volumeAttributes"`
			} `json:"csi"`
		} `json:"spec"`
	} `json:"items"`
}

// list returns the PersistentVolumes of the driver in the order of their names. Its errors are gRPC
// statuses.
func (v volumes) list(ctx context.Context) (found []manila.Volume, err error) {
	client, address, err := v.connect()
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "listing the PersistentVolumes: %v", err)
	}
	defer client.CloseIdleConnections()
	next := ""
	for range maxPages {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}, "continue": {next}}
		page, err := readPage(ctx, client, address+"?"+query.Encode())
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if csi := item.Spec.CSI; csi.Driver == v.driver && len(found) <= maxVolumes {
				found = append(found, manila.Volume{
					Name: item.Metadata.Name, ShareID: csi.Attributes["shareID"],
					ShareName: csi.Attributes["shareName"],
				})
			}
		}
		if next = page.Metadata.Continue; next == "" {
			break
		}
	}
	if next != "" || len(found) > maxVolumes {
		return nil, status.Errorf(codes.FailedPrecondition, "the cluster has more than %d "+
			"PersistentVolumes, or more than %d of the driver", maxPages*pageSize, maxVolumes)
	}
	return found, nil
}

// connect returns a client of the API server and the address of the PersistentVolumes.
func (v volumes) connect() (*http.Client, string, error) {
	load := rest.InClusterConfig
	if v.kubeconfig != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", v.kubeconfig) }
	}
	config, err := load()
	if err != nil {
		return nil, "", fmt.Errorf("loading the kubeconfig: %w", err)
	}
	// The proxy in the environment is for requests to OpenStack.
	config.Proxy = http.ProxyURL(nil)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	address, err := url.JoinPath(config.Host, "api/v1/persistentvolumes")
	return client, address, err
}

// readPage reads a part of a list. Its errors are gRPC statuses.
func readPage(ctx context.Context, client *http.Client, address string) (*volumePage, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "listing the PersistentVolumes: %v", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		// The error contains ports, and the controller copies messages into objects.
		klog.FromContext(ctx).Info("Failed to list the PersistentVolumes", "reason", err.Error())
		return nil, status.Error(codes.Unavailable,
			"listing the PersistentVolumes: the API server did not answer")
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, status.Errorf(codes.Unavailable, "listing the PersistentVolumes: the API server "+
			"returned HTTP %d. The ServiceAccount of the pod needs the permission to list them",
			response.StatusCode)
	}
	page := &volumePage{}
	err = json.NewDecoder(io.LimitReader(response.Body, maxPage)).Decode(page)
	if err == nil && page.Kind != "PersistentVolumeList" {
		err = errors.New("the answer is no list of PersistentVolumes")
	}
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "listing the PersistentVolumes: %.512v", err)
	}
	return page, nil
}
