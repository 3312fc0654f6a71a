package controller

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/settings"
)

// answers is an API server that returns an error for lists in a namespace.
type answers struct {
	manager.Manager
	client.Reader

	in func(namespace string) error
}

func (a answers) GetAPIReader() client.Reader { return a }

func (a answers) List(
	_ context.Context, _ client.ObjectList, options ...client.ListOption,
) error {
	var all client.ListOptions
	all.ApplyOptions(options)
	return a.in(all.Namespace)
}

// unavailable returns a supervisor of two drivers. The API server is unavailable for a minute. Then
// it forbids namespace "b" until the given time has passed.
func unavailable(until time.Duration) *supervisor {
	drivers := settings.Drivers{
		"cinder": {Namespaces: []string{"a"}}, "manila": {Namespaces: []string{"b"}},
	}
	s := &supervisor{Controller: &Controller{Settings: &settings.Settings{Drivers: drivers}}}
	start := time.Now()
	s.outer = answers{in: func(namespace string) error {
		switch passed := time.Since(start); {
		case passed < time.Minute:
			return errors.New("connection refused")
		case namespace == "b" && passed < until:
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return nil
	}}
	return s
}

func TestNamespacesAreKnownWhenTheAPIServerAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		allowed, forbidden := unavailable(time.Hour).awaitNamespaces(t.Context())
		got := [][]string{allowed, forbidden}
		if diff := cmp.Diff([][]string{{"a"}, {"b"}}, got); diff != "" {
			t.Errorf("allowed and forbidden namespaces (-want +got):\n%s", diff)
		}
	})
}

func TestOutageIsNoPermission(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		unavailable(time.Hour).awaitPermission(t.Context(), []string{"b"})
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("the permission is there after %v, want 1h", waited)
		}
	})
}
