package sidecar

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/wait"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/test/fakedriver"
)

// Tokens of the fake API server.
const (
	// forPod is the part of a token that says that it is for the pod of the sidecar.
	forPod = "e30.eyJhdWQiOlsiY3NpYWRkb25zLm9wZW5zaGlmdC5pby91aWQtYSJdfQ."

	// The controller and another ServiceAccount, the audience of the pod.
	controllerToken, unauthorizedToken = forPod + "controller", forPod + "unauthorized"
	// The controller again, and nobody, the audience of the pod. For the last one there is no answer.
	nextToken, forgedToken, noAnswerToken = forPod + "next", forPod + "forged", forPod + "no-answer"
	// The controller: the audiences of another pod, of no pod, and of the API server.
	otherPodToken  = "of-other-pod"
	sharedToken    = "e30.eyJhdWQiOlsiY3NpYWRkb25zLm9wZW5zaGlmdC5pbyJdfQ.a"
	apiServerToken = "of-api-server"
)

// controllerUser is the user whom reviewAccess allows to call.
const controllerUser = "system:serviceaccount:csi-addons-system:csi-addons-controller-manager"

// fixture is a running sidecar with fake clients.
type fixture struct {
	*testing.T

	kube     *kubefake.Clientset
	dynamic  *dynamicfake.FakeDynamicClient
	answers  *answers
	driver   *fakedriver.Driver
	registry *prometheus.Registry
	metrics  *Metrics
	// ended delivers the result of Run.
	ended chan error
	stop  context.CancelFunc
}

// loadSettings parses flags as the command does.
func loadSettings(t *testing.T, args ...string) (*Settings, error) {
	t.Helper()
	var flags Flags
	set := pflag.NewFlagSet("sidecar", pflag.ContinueOnError)
	flags.AddTo(set)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	assert.NilError(t, set.Parse(args))
	return flags.Load()
}

// podFlags are the flags that every sidecar needs.
func podFlags(more ...string) []string {
	return append([]string{
		"--node-id=worker-1", "--pod=pod-a", "--namespace=csi", "--pod-uid=uid-a",
	}, more...)
}

// newFixture returns a sidecar that does not run yet. It serves on a free port. The cluster also
// contains a volume and its Secret.
func newFixture(t *testing.T, objects ...runtime.Object) *fixture {
	t.Helper()
	objects = append(objects, persistentVolume(), cloudSecret())
	f := &fixture{
		T: t, registry: prometheus.NewRegistry(), kube: kubefake.NewClientset(objects...),
		answers: &answers{services: []identity.Capability_Service_Type{
			identity.Capability_Service_NODE_SERVICE, identity.Capability_Service_CONTROLLER_SERVICE,
		}},
		dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{resource(): "CSIAddonsNodeList"}),
		ended: make(chan error, 1),
	}
	f.metrics = NewMetrics(f.registry)
	f.dynamic.PrependReactor("patch", "csiaddonsnodes", f.apply)
	f.kube.PrependReactor("create", "tokenreviews", reviewToken)
	f.kube.PrependReactor("create", "subjectaccessreviews", reviewAccess)
	return f
}

// apply is server-side apply with force, for the fields that a sidecar writes.
func (f *fixture) apply(action clienttesting.Action) (bool, runtime.Object, error) {
	patch, tracker := action.(clienttesting.PatchAction), f.dynamic.Tracker()
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON(patch.GetPatch()); err != nil {
		return true, nil, err
	}
	object, err := tracker.Get(resource(), "csi", patch.GetName())
	if apierrors.IsNotFound(err) {
		applied.SetUID(uuid.NewUUID())
		return true, applied, tracker.Create(resource(), applied, "csi")
	}
	if err != nil {
		return true, nil, err
	}
	found := object.(*unstructured.Unstructured).DeepCopy()
	for _, field := range []string{"name", "nodeID"} {
		was, _, _ := unstructured.NestedString(found.Object, "spec", "driver", field)
		is, _, _ := unstructured.NestedString(applied.Object, "spec", "driver", field)
		if was != is {
			return true, nil, apierrors.NewInvalid(applied.GroupVersionKind().GroupKind(),
				patch.GetName(), nil)
		}
	}
	annotations := map[string]string{}
	maps.Copy(annotations, found.GetAnnotations())
	maps.Copy(annotations, applied.GetAnnotations())
	found.Object["spec"] = applied.Object["spec"]
	found.SetAnnotations(annotations)
	found.SetOwnerReferences(applied.GetOwnerReferences())
	if equality.Semantic.DeepEqual(object, found) {
		return true, found, nil // without an event
	}
	return true, found, tracker.Update(resource(), found, "csi")
}

// reviewToken accepts the tokens above. It checks audiences as the API server does.
func reviewToken(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.CreateAction).GetObject()
	review := object.(*authenticationv1.TokenReview).DeepCopy()
	known := map[string][2]string{
		controllerToken:   {"csiaddons.openshift.io/uid-a", controllerUser},
		nextToken:         {"csiaddons.openshift.io/uid-a", controllerUser},
		unauthorizedToken: {"csiaddons.openshift.io/uid-a", "system:serviceaccount:csi:other"},
		otherPodToken:     {"csiaddons.openshift.io/uid-b", controllerUser},
		sharedToken:       {"csiaddons.openshift.io", controllerUser},
		apiServerToken:    {"", controllerUser},
	}
	if review.Spec.Token == noAnswerToken {
		return true, nil, errors.New("no answer")
	}
	found, ok := known[review.Spec.Token]
	if ok && strings.Join(review.Spec.Audiences, ",") == found[0] {
		review.Status.Authenticated, review.Status.User.Username = true, found[1]
		review.Status.Audiences = review.Spec.Audiences
	}
	return true, review, nil
}

// reviewAccess allows the controller to call.
func reviewAccess(action clienttesting.Action) (bool, runtime.Object, error) {
	object := action.(clienttesting.CreateAction).GetObject()
	review := object.(*authorizationv1.SubjectAccessReview).DeepCopy()
	attributes := review.Spec.ResourceAttributes
	review.Status.Allowed = review.Spec.User == controllerUser &&
		attributes.Namespace == "csi" && attributes.Verb == "create" &&
		attributes.Resource == "csiaddonsnodes" && attributes.Subresource == "calls"
	return true, review, nil
}

// run runs the sidecar until the test ends.
func (f *fixture) run(args ...string) {
	f.Helper()
	settings, err := loadSettings(f.T, append(podFlags("--controller-port=0"), args...)...)
	assert.NilError(f, err)
	f.driver = fakedriver.Serve(f.T, f.answers.answer)
	client, err := driver.New(f.driver.Socket)
	assert.NilError(f, err)
	f.Cleanup(func() { _ = client.Close() })
	s := &Program{
		Settings: settings, Driver: client, Kube: f.kube, Dynamic: f.dynamic, Metrics: f.metrics,
	}
	ctx, cancel := context.WithCancel(f.Context())
	f.stop = cancel
	var running sync.WaitGroup
	running.Go(func() { f.ended <- s.Run(ctx) })
	f.Cleanup(running.Wait)
	f.Cleanup(cancel)
}

// announced returns the only CSIAddonsNode, or nil.
func (f *fixture) announced(ctx context.Context) *v1alpha1.CSIAddonsNode {
	f.Helper()
	list, err := f.dynamic.Resource(resource()).Namespace("csi").List(ctx, metav1.ListOptions{})
	assert.Assert(f, err == nil && len(list.Items) <= 1, "%d objects: %v", len(list.Items), err)
	if len(list.Items) == 0 {
		return nil
	}
	node := &v1alpha1.CSIAddonsNode{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[0].Object, node)
	assert.NilError(f, err)
	return node
}

func (f *fixture) awaitAnnounced() *v1alpha1.CSIAddonsNode {
	f.Helper()
	var node *v1alpha1.CSIAddonsNode
	eventually(f.T, "there is a CSIAddonsNode", func(ctx context.Context) bool {
		node = f.announced(ctx)
		return node != nil
	})
	return node
}

// connect connects to the published address as a controller does. Without a pin it uses no TLS.
func (f *fixture) connect(pin string, options ...grpc.DialOption) *grpc.ClientConn {
	f.Helper()
	address, err := wire.ParseEndpoint(f.awaitAnnounced().Spec.Driver.EndPoint)
	assert.NilError(f, err)
	transport := insecure.NewCredentials()
	if pin != "" {
		transport = credentials.NewTLS(wire.PinnedTLS(pin))
	}
	port := strconv.FormatUint(uint64(address.Port), 10)
	connection, err := grpc.NewClient("passthrough:///"+net.JoinHostPort("127.0.0.1", port),
		append(options, grpc.WithTransportCredentials(transport))...)
	assert.NilError(f, err)
	f.Cleanup(func() { _ = connection.Close() })
	return connection
}

// connectPinned connects with the pin that the sidecar publishes.
func (f *fixture) connectPinned(options ...grpc.DialOption) *grpc.ClientConn {
	f.Helper()
	return f.connect(f.awaitAnnounced().Annotations[v1alpha1.CertificatePinAnnotation], options...)
}

func (f *fixture) with(token string) context.Context {
	return metadata.AppendToOutgoingContext(f.Context(), wire.TokenHeader, wire.TokenPrefix+token)
}

// reclaim calls the controller service.
func (f *fixture) reclaim() error {
	connection := f.connectPinned()
	defer connection.Close()
	_, err := wire.ControllerReclaimSpace.Call(f.with(controllerToken), connection,
		&wire.ReclaimSpaceRequest{PvName: "data"})
	return err
}

// reclaimOnNode calls the node service for a volume.
func (f *fixture) reclaimOnNode(volume string) (*wire.ReclaimSpaceResponse, error) {
	connection := f.connectPinned()
	defer connection.Close()
	return wire.NodeReclaimSpace.Call(f.with(controllerToken), connection,
		&wire.ReclaimSpaceRequest{PvName: volume})
}

// awaitTerm waits until the sidecar executes operations of the leader, and returns the error of the
// driver.
func (f *fixture) awaitTerm() error {
	f.Helper()
	var err error
	eventually(f.T, "the pod is the leader", func(context.Context) bool {
		err = f.reclaim()
		return status.Code(err) != codes.FailedPrecondition
	})
	return err
}

// requests returns how many requests for a resource the sidecar sent.
func (f *fixture) requests(verb, resource string) int {
	return len(slices.DeleteFunc(f.kube.Actions(), func(action clienttesting.Action) bool {
		return !action.Matches(verb, resource)
	}))
}

// checkRequest compares the last request that the driver received.
func (f *fixture) checkRequest(method string, want proto.Message) {
	f.Helper()
	assert.Check(f, is.DeepEqual(want, f.driver.Last(method), protocmp.Transform()), method)
}

const driverName = "example.csi.openstack.org"

// soon bounds a wait on a busy machine.
const soon = time.Minute

// answers are those of the driver.
type answers struct {
	services []identity.Capability_Service_Type
	probes   atomic.Int32
	notReady int32 // probes that return "not ready"
	// block makes calls of the controller service wait until they are cancelled.
	block chan struct{}
}

func (a *answers) answer(ctx context.Context, method string) (proto.Message, error) {
	switch method {
	case "GetIdentity":
		return &identity.GetIdentityResponse{Name: driverName, VendorVersion: "v1"}, nil
	case "GetCapabilities":
		response := &identity.GetCapabilitiesResponse{}
		for _, service := range a.services {
			response.Capabilities = append(response.Capabilities, &identity.Capability{
				Type: &identity.Capability_Service_{Service: &identity.Capability_Service{Type: service}},
			})
		}
		return response, nil
	case "Probe":
		ready := a.probes.Add(1) > a.notReady
		return &identity.ProbeResponse{Ready: wrapperspb.Bool(ready)}, nil
	case "ControllerReclaimSpace":
		if a.block == nil {
			return nil, status.Error(codes.Unimplemented, "the cloud cannot discard")
		}
		close(a.block)
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	case "NodeReclaimSpace":
		return &reclaimspace.NodeReclaimSpaceResponse{
			PreUsage: &reclaimspace.StorageConsumption{UsageBytes: 200},
		}, nil
	case "FenceClusterNetwork":
		return nil, grpc.SetTrailer(ctx, metadata.Pairs(wire.ChangedSharesTrailer, "3"))
	case "GetFenceClients":
		return &fence.GetFenceClientsResponse{Clients: []*fence.ClientDetails{
			{Id: "worker-1", Addresses: []*fence.CIDR{{Cidr: "10.0.0.1/32"}}},
		}}, nil
	default:
		return nil, nil
	}
}

// eventually waits until a condition is true.
func eventually(t *testing.T, what string, condition func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, soon, true,
		func(ctx context.Context) (bool, error) { return condition(ctx), nil })
	assert.Assert(t, err == nil, "waited %v for this: %s", soon, what)
}
