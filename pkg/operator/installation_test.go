package operator

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// objectServer is an API server with one object, or none.
type objectServer struct {
	dynamic.ResourceInterface

	mu     sync.Mutex
	object *unstructured.Unstructured
	// changes are made between the next read and the next write.
	changes func()
}

func (s *objectServer) Get(
	context.Context, string, metav1.GetOptions, ...string,
) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.object == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, "x")
	}
	return s.object.DeepCopy(), nil
}

func (s *objectServer) ApplyStatus(
	_ context.Context, _ string, desired *unstructured.Unstructured, _ metav1.ApplyOptions,
) (*unstructured.Unstructured, error) {
	if s.changes != nil {
		s.changes()
		s.changes = nil
	}
	if desired.GetResourceVersion() != s.object.GetResourceVersion() {
		return nil, apierrors.NewConflict(schema.GroupResource{}, "x", nil)
	}
	s.set("status", desired.Object["status"].(map[string]any))
	return s.object, nil
}

// set replaces a field of the object, in a new version.
func (s *objectServer) set(field string, value map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.object == nil {
		s.object = &unstructured.Unstructured{Object: map[string]any{}}
	}
	s.object.Object[field] = value
	version, _ := strconv.Atoi(s.object.GetResourceVersion())
	s.object.SetResourceVersion(strconv.Itoa(version + 1))
}

func (s *objectServer) remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object = nil
}

// installed returns an installation in namespace "b".
func installed() (*installation, *objectServer, *fake.Clientset) {
	server := &objectServer{}
	kube := fake.NewClientset(&corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"},
	})
	i := &installation{
		process: process(), name: "x", object: "ManilaDriver x", objects: server, kube: kube,
		operator: "my-operator", namespace: "b", election: configv1.LeaderElection{Name: "lock"},
		definition: func(context.Context) (*metav1.PartialObjectMetadata, error) {
			crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "xs.example"}}
			crd.Annotations = map[string]string{api.RevisionAnnotation: strconv.Itoa(api.Revision)}
			return crd, nil
		},
	}
	i.election.LeaseDuration.Duration = time.Minute
	i.election.RetryPeriod.Duration = time.Second
	return i, server, kube
}

func (s *objectServer) expect(t *testing.T, when, namespace, clusterID string) {
	t.Helper()
	want := map[string]any{"namespace": namespace, "clusterID": clusterID}
	assert.Check(t, is.DeepEqual(want, s.object.Object["status"]), when)
}

func TestInstallationClaimsTheObjectOnceItExists(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, server, _ := installed()
		go func() {
			<-time.After(time.Minute)
			server.changes = func() { server.set("spec", map[string]any{"clusterID": "mine"}) }
			server.set("spec", nil)
		}()
		assert.NilError(t, i.claim(t.Context()))
		server.expect(t, "after a conflict", "b", "mine")
	})
}

// Helm deletes the object of a driver that values no longer enable. The driver continues to run.
func TestClusterIDOutlivesTheObject(t *testing.T) {
	t.Parallel()
	for _, argument := range []string{"--cluster=mine", "--cluster-id=mine"} {
		i, server, kube := installed()
		i.controller = "controller"
		running := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "controller"},
		}
		running.Spec.Template.Spec.Containers = []corev1.Container{
			{Args: []string{"--endpoint=x"}}, {Args: []string{"-v=2", argument}},
		}
		assert.NilError(t, kube.Tracker().Add(running))
		server.set("spec", nil)
		assert.NilError(t, i.claim(t.Context()))
		server.expect(t, argument, "b", "mine")
	}
}

// The other installation is in namespace "a".
func TestSecondInstallationWaitsUntilTheFirstIsGone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, server, kube := installed()
		waits, asked := false, ""
		i.process.SetReady = func(ready bool) { waits = !ready }
		kube.PrependReactor("create", "subjectaccessreviews",
			func(action kubetesting.Action) (bool, runtime.Object, error) {
				review := action.(kubetesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview)
				asked = review.Spec.User
				return true, review, nil // it is not allowed
			})
		recorder := i.process.Events.(events.InMemoryRecorder)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lock"}}
		lease.Spec.HolderIdentity = ptr.To("a pod")
		assert.NilError(t, kube.Tracker().Add(lease))
		served := map[string]any{"namespace": "a", "clusterID": "first"}
		server.set("status", served)
		claimed := make(chan error, 1)
		go func() { claimed <- i.claim(t.Context()) }()
		for n := range 60 { // an hour
			<-time.After(time.Minute)
			lease.ResourceVersion = strconv.Itoa(n)
			assert.NilError(t, kube.Tracker().Update(
				coordinationv1.SchemeGroupVersion.WithResource("leases"), lease, "a"))
			if n == 30 { // the object is deleted and created again
				server.remove()
				<-time.After(time.Second)
				server.set("status", nil)
				<-time.After(time.Minute)
				assert.Check(t, is.Nil(server.object.Object["status"].(map[string]any)))
				server.set("status", served)
			}
		}
		server.expect(t, "after an hour", "a", "first")
		assert.Check(t, waits && len(recorder.Events()) == 1, "%v, %v", waits, recorder.Events())
		assert.Check(t, is.Equal(asked, "system:serviceaccount:a:my-operator"))
		said := recorder.Events()[0].Message
		assert.Check(t, is.Contains(said, "kubectl delete deployment my-operator -n a"))
		assert.Check(t, is.Contains(said, "clusterrolebinding my-operator-clusterrolebinding --type"))
		gone := time.Now()
		assert.NilError(t, <-claimed)
		assert.Check(t, time.Since(gone).Round(10*time.Second) == 5*time.Minute, time.Since(gone))
		server.expect(t, "when the first is gone", "b", "first")
		assert.Check(t, !waits && len(recorder.Events()) == 2, "%v, %v", waits, recorder.Events())
	})
}

func TestClusterIDStaysUntilItsChangeIsConfirmed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		recorded, chosen, replaces string
		want                       string
		ignored                    bool
	}{
		"first start":                       {want: "uid"},
		"first start with an ID":            {chosen: "a", want: "a"},
		"same ID":                           {recorded: "a", chosen: "a", want: "a"},
		"edited":                            {recorded: "a", chosen: "b", want: "a", ignored: true},
		"removed":                           {recorded: "a", want: "a", ignored: true},
		"rebuilt":                           {recorded: "other uid", want: "other uid", ignored: true},
		"confirmed":                         {recorded: "a", chosen: "b", replaces: "a", want: "b"},
		"confirmed removal":                 {recorded: "a", replaces: "a", want: "uid"},
		"confirmation of an earlier change": {"b", "c", "a", "b", true},
	} {
		i, server, _ := installed()
		i.uid = "uid"
		server.set("spec", map[string]any{
			"clusterID": test.chosen, "replacesClusterID": test.replaces,
		})
		server.set("status", map[string]any{"namespace": "b", "clusterID": test.recorded})
		ignored, err := i.serve(t.Context(), server.object)
		assert.NilError(t, err)
		server.expect(t, name, "b", test.want)
		assert.Check(t, is.Equal(test.ignored, ignored != ""), "%s: %s", name, ignored)
	}
}

func TestControllerReportsTheInstallation(t *testing.T) {
	t.Parallel()
	cluster := clustertest.New(t, clustertest.Seed{
		Flavour: flavour.Kubernetes, OperatorNamespace: "b", Spec: "clusterID: other",
	})
	d := assembledIn(t, cluster, plugins()...)[0]
	i, server, _ := installed()
	i.outdated, d.serves = "an old definition", i
	cluster.Start(t)
	sync := syncer(t, d, d.installation)
	status := func() string {
		t.Helper()
		assert.NilError(t, sync())
		for _, c := range cluster.State.Conditions(t) {
			if c.Type == "InstallationValid" {
				return c.Reason + " " + c.Message
			}
		}
		return ""
	}
	server.object = cluster.Cached()
	assert.Check(t, is.Equal(status(), "AsExpected As expected"), "the definition is current")
	server.expect(t, "the object that was created anew", "b", "other")
	server.object.Object["spec"] = map[string]any{"clusterID": "a"}
	assert.Check(t, is.Equal(status(), `ClusterIDDiffers spec.clusterID of ManilaDriver x is "a", `+
		`but status.clusterID "other" stays in use: the shares and volumes with this ID would become `+
		`orphans, and fences would not reach them. To keep it, set spec.clusterID to it; to change `+
		`it, set spec.replacesClusterID to it`))
	server.set("status", map[string]any{"namespace": "b"})
	err := i.run(t.Context(), func(ctx context.Context) {
		server.set("status", map[string]any{"namespace": "a"})
		assert.NilError(t, sync())
		<-ctx.Done()
	})
	assert.Check(t, is.ErrorContains(err, "the installation in namespace a has taken over"))
}

func TestOldDefinitionIsNamed(t *testing.T) {
	t.Parallel()
	i, server, _ := installed()
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "xs.example"}}
	i.definition = func(context.Context) (*metav1.PartialObjectMetadata, error) { return crd, nil }
	server.set("spec", nil)
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	ctx := klog.NewContext(t.Context(), logger)
	logged := func() int {
		text := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
		return strings.Count(text, "Compared the CustomResourceDefinition")
	}
	assert.NilError(t, i.claim(ctx))
	got := i.condition("")
	assert.Check(t, is.Equal(*got.Reason, "OldDefinition"))
	assert.Check(t, is.Contains(*got.Message, "CustomResourceDefinition xs.example is of an earlier "+
		"release (revision 0, not "+strconv.Itoa(api.Revision)+")"))
	for range 3 {
		assert.NilError(t, i.compare(ctx))
	}
	assert.Check(t, is.Equal(logged(), 1))
	crd.Annotations = map[string]string{api.RevisionAnnotation: strconv.Itoa(api.Revision)}
	assert.NilError(t, i.compare(ctx))
	assert.Check(t, is.Equal(logged(), 2))
}
