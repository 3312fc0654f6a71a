package kubectl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gotest.tools/v3/assert"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/test/golden"
)

// scenario is a file in testdata: the arguments, and how the cluster differs from objects.yaml.
type scenario struct {
	Args      string                      `json:"args"`
	Objects   []unstructured.Unstructured `json:"objects"`
	Remove    []string                    `json:"remove"` // kind and name
	Forbidden []string                    `json:"forbidden"`
	Denied    []string                    `json:"denied"` // verb and resource
}

// The scenarios are run with the flags that each file contains. The golden files contain exit code
// and output.
func TestOutputIsThatOfTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for _, file := range scenarioFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			mustMatchGolden(t, file)
		})
	}
}

func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*_*.yaml")
	assert.Assert(t, err == nil && len(files) >= 15, "found %d files, error %v", len(files), err)
	return files
}

func mustMatchGolden(t *testing.T, file string) {
	t.Helper()
	var s scenario
	decode(t, file, &s)
	var stdout, stderr bytes.Buffer
	o := s.options(t)
	code := execute(t.Context(), o, append(strings.Fields(s.Args), "--kubeconfig="+kubeconfig(t)),
		Streams{Out: &stdout, Err: &stderr})
	got := fmt.Sprintf("$ kubectl openstack-csi %s\n%s%sexit code %d\n", s.Args, stdout.String(),
		stderr.String(), code)
	for line := range strings.Lines(stdout.String()) {
		assert.Check(t, utf8.RuneCountInString(line) <= width+1 || strings.Contains(s.Args, " -o"),
			"longer than %d columns: %s", width, line)
	}
	golden.Match(t, strings.TrimSuffix(file, ".yaml")+".txt", got)
}

// The command, its output and the next prompt.
func TestStatusOfAHealthyClusterFitsInATerminal(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/status_healthy.txt")
	assert.NilError(t, err)
	if lines := bytes.Count(text, []byte("\n")); lines > 24 {
		t.Errorf("%d lines", lines)
	}
}

func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	assert.NilError(t, yaml.UnmarshalStrict(text, into), file)
}

// kubeconfig returns the path of a kubeconfig of a cluster that does not exist.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := "{apiVersion: v1, kind: Config, current-context: a, " +
		"clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}], " +
		"contexts: [{name: a, context: {cluster: a}}]}"
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// options returns options whose client reads the objects of the scenario.
func (s *scenario) options(t *testing.T) *options {
	t.Helper()
	o := newOptions()
	o.clock = clocktesting.NewFakePassiveClock(time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC))
	connectTo(o, s.client(t))
	return o
}

func connectTo(o *options, c client.Client) {
	o.connect = func(*rest.Config) (client.Client, error) { return c, nil }
}

// onGet returns a client that calls get to read an object.
func onGet(c client.Client, get func(
	context.Context, client.WithWatch, client.ObjectKey, client.Object,
) error,
) client.WithWatch {
	return interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Get: func(ctx context.Context,
		c client.WithWatch, key client.ObjectKey, object client.Object, _ ...client.GetOption,
	) error {
		return get(ctx, c, key, object)
	}})
}

// forbidden lets nobody read an object of a namespace.
func forbidden(namespace string) func(
	context.Context, client.WithWatch, client.ObjectKey, client.Object,
) error {
	return func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
	) error {
		if key.Namespace == namespace {
			return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, errors.New("RBAC"))
		}
		return c.Get(ctx, key, object)
	}
}

// logsOf returns a reader of logs that calls text.
func logsOf(text func(pod *corev1.Pod) (string, error)) func(*rest.Config) (logReader, error) {
	return func(*rest.Config) (logReader, error) {
		return func(_ context.Context, p *corev1.Pod, _ *corev1.PodLogOptions) ([]byte, error) {
			read, err := text(p)
			return []byte(read), err
		}, nil
	}
}

func (s *scenario) client(t *testing.T) client.Client {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	var all []unstructured.Unstructured
	decode(t, "testdata/objects.yaml", &all)
	objects := map[string]runtime.Object{}
	for _, u := range append(all, s.Objects...) {
		typed, err := types.New(u.GroupVersionKind())
		assert.NilError(t, err)
		err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, typed, true)
		if err != nil {
			t.Fatal(u.GetKind(), u.GetName(), err)
		}
		if !slices.Contains(s.Remove, u.GetKind()+" "+u.GetName()) {
			objects[u.GetKind()+"/"+u.GetNamespace()+"/"+u.GetName()] = typed
		}
	}
	builder := fake.NewClientBuilder().WithScheme(types).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string {
			return []string{o.(*corev1.Pod).Spec.NodeName}
		}).
		WithInterceptorFuncs(s.refusals(types))
	for _, object := range objects {
		builder = builder.WithRuntimeObjects(object)
	}
	return builder.Build()
}

// refusals refuses requests for the forbidden kinds.
func (s *scenario) refusals(types *runtime.Scheme) interceptor.Funcs {
	funcs := onRead(func(_ string, object runtime.Object) error {
		kind := (&cluster{Client: fake.NewClientBuilder().WithScheme(types).Build()}).kind(object)
		if slices.Contains(s.Forbidden, kind) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("RBAC"))
		}
		return nil
	})
	funcs.Create = func(ctx context.Context, c client.WithWatch, object client.Object,
		options ...client.CreateOption,
	) error {
		review, ok := object.(*authorizationv1.SelfSubjectAccessReview)
		if !ok {
			return c.Create(ctx, object, options...)
		}
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = !slices.Contains(s.Denied, asked.Verb+" "+asked.Resource)
		return nil
	}
	return funcs
}

// onRead calls check before each request with its verb.
func onRead(check func(verb string, object runtime.Object) error) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
			options ...client.GetOption,
		) error {
			if err := check("get", object); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption,
		) error {
			if err := check("list", list); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}
}
