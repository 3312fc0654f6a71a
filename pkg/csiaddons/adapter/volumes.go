package adapter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
)

const (
	// pageSize is the number of PersistentVolumes in one answer of the API server.
	pageSize    = 250
	pageTimeout = 30 * time.Second
	maxRetries  = 2
)

// volumes lists PersistentVolumes. Only one page of them is in memory, and package
// k8s.io/client-go/kubernetes, which takes 9 MB, is not.
type volumes struct {
	// driver is the name of the CSI driver, and kubeconfig the path of a kubeconfig; "" means the
	// identity of the pod.
	driver, kubeconfig string
}

// list returns the PersistentVolumes of the driver in the order of their names. Its errors are gRPC
// statuses.
func (v volumes) list(ctx context.Context) ([]manila.Volume, error) {
	client, err := v.connect()
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "listing the PersistentVolumes: %v", err)
	}
	var found []manila.Volume
	for next, more := "", true; more; more = next != "" {
		page, err := readPage(ctx, client, next)
		if err != nil {
			return nil, err
		}
		for _, volume := range page.Items {
			if csi := volume.Spec.CSI; csi != nil && csi.Driver == v.driver {
				found = append(found, manila.Volume{
					Name: volume.Name, ShareID: csi.VolumeAttributes["shareID"],
					ShareName: csi.VolumeAttributes["shareName"],
					Bound:     volume.Status.Phase == corev1.VolumeBound,
				})
			}
		}
		next = page.Continue
	}
	return found, nil
}

func (v volumes) connect() (*rest.RESTClient, error) {
	load := rest.InClusterConfig
	if v.kubeconfig != "" {
		load = func() (*rest.Config, error) { return clientcmd.BuildConfigFromFlags("", v.kubeconfig) }
	}
	config, err := load()
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.QPS, config.Timeout = -1, pageTimeout
	config.Proxy = http.ProxyURL(nil) // the proxy in the environment is for requests to OpenStack
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of Kubernetes: %w", err)
	}
	return client, nil
}

// readPage reads a part of the list of all PersistentVolumes. Its errors are gRPC statuses.
func readPage(ctx context.Context, client *rest.RESTClient, next string,
) (*corev1.PersistentVolumeList, error) {
	page := &corev1.PersistentVolumeList{}
	err := client.Get().Resource("persistentvolumes").Param("limit", strconv.Itoa(pageSize)).
		Param("continue", next).MaxRetries(maxRetries).Do(ctx).Into(page)
	if err == nil && page.ResourceVersion == "" { // the client ignores the kind of an answer
		err = errors.New("the answer is not a list")
	}
	switch {
	case err == nil:
		return page, nil
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		// The error contains ports, and the controller copies messages into objects.
		klog.FromContext(ctx).Info("Failed to list the PersistentVolumes", "reason", err.Error())
		err = errors.New("the API server did not return a list")
	}
	return nil, status.Errorf(codes.Unavailable, "listing the PersistentVolumes: %.512v", err)
}
