package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller/connection"
)

// runAllowed runs the operations for the namespaces of drivers that the controller may read. It
// runs them again for more namespaces when it may read these. A cache of objects in a namespace
// without permission would never be complete, and all operations would wait for it.
func (s *supervisor) runAllowed(ctx context.Context, tokens *connection.Tokens) error {
	partial := false
	for {
		allowed, forbidden := s.awaitNamespaces(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // another controller runs, or the program ends
		}
		if partial || len(forbidden) > 0 {
			s.reportNamespaces(ctx, allowed, forbidden)
		}
		partial = len(forbidden) > 0
		if err := s.runIn(ctx, tokens, allowed, forbidden); err != nil {
			return err
		}
	}
}

// awaitNamespaces returns which namespaces of drivers the controller may read. It waits until the
// API server has answered for all of them, or ctx is done.
func (s *supervisor) awaitNamespaces(ctx context.Context) (allowed, forbidden []string) {
	_ = wait.PollUntilContextCancel(ctx, checkInterval, true,
		func(ctx context.Context) (bool, error) {
			allowed, forbidden = nil, nil
			for _, namespace := range s.Settings.Drivers.Namespaces() {
				switch s.mayRead(ctx, namespace) {
				case permitted:
					allowed = append(allowed, namespace)
				case refused:
					forbidden = append(forbidden, namespace)
				default:
					return false, nil
				}
			}
			return true, nil
		})
	return allowed, forbidden
}

// runIn runs the operations for the allowed namespaces until the controller may read a forbidden
// one, or ctx is done.
func (s *supervisor) runIn(
	ctx context.Context, tokens *connection.Tokens, allowed, forbidden []string,
) error {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if len(forbidden) > 0 {
		waiting.Go(func() {
			defer cancel()
			s.awaitPermission(ctx, forbidden)
		})
	}
	if len(allowed) == 0 { // a cache without namespaces would contain all
		<-ctx.Done()
		return nil
	}
	inner, err := s.newOperations(ctx, tokens, allowed)
	if err != nil {
		return err
	}
	return inner.run(ctx)
}

// permission is what the API server answers to a request. It is unknown if the request fails for
// another reason than RBAC.
type permission int

const (
	unknown permission = iota
	permitted
	refused
)

// mayRead returns whether the controller may list what it watches in a namespace.
func (s *supervisor) mayRead(ctx context.Context, namespace string) permission {
	reader, one := s.outer.GetAPIReader(), client.Limit(1)
	for _, list := range []client.ObjectList{&v1alpha1.CSIAddonsNodeList{}, &corev1.PodList{}} {
		err := reader.List(ctx, list, client.InNamespace(namespace), one)
		if apierrors.IsForbidden(err) {
			return refused
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to check the permission to read the namespace of a "+
				"driver", "namespace", namespace)
			return unknown
		}
	}
	return permitted
}

// awaitPermission waits until the controller may read one of the namespaces, or ctx is done.
func (s *supervisor) awaitPermission(ctx context.Context, namespaces []string) {
	_ = wait.PollUntilContextCancel(ctx, checkInterval, false,
		func(ctx context.Context) (bool, error) {
			return slices.ContainsFunc(namespaces, func(namespace string) bool {
				return s.mayRead(ctx, namespace) == permitted
			}), nil
		})
}

func (s *supervisor) reportNamespaces(ctx context.Context, allowed, forbidden []string) {
	if len(forbidden) == 0 {
		s.report(ctx, true, ReasonNoOther, "The controller may read the namespaces of all drivers")
		return
	}
	s.report(ctx, len(allowed) > 0, ReasonForbidden, fmt.Sprintf("The controller may not read "+
		"CSIAddonsNodes and pods in the namespaces %s, so it does not serve drivers there. Grant it the "+
		"ClusterRole csi-addons-driver-role by a RoleBinding in each of them, or remove them from the "+
		"flag --driver-namespaces", strings.Join(forbidden, ", ")))
}
