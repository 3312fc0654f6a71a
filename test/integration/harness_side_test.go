//go:build integration

package integration

import (
	"context"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	operatorclient "github.com/openshift/client-go/operator/clientset/versioned"
)

// side is a cluster in the eyes of its administrator.
type side struct {
	name string // for messages
	dir  string // its part of the devcluster's state
	// namespace is where, in this cluster, the operators are at home.
	namespace string
	// admin is who all operators are here, if they have no accounts of their own.
	admin string
	// restored is what the reset gives its first content back.
	restored []place

	config   *rest.Config
	kube     kubernetes.Interface
	openst   operatorclient.Interface
	dynamic  dynamic.Interface
	baseline baseline
}

func (s *side) connect(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(s.dir, "admin.kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS, config.UserAgent = -1, "integration-test"
	s.config = config
	if s.kube, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if s.openst, err = operatorclient.NewForConfig(config); err != nil {
		return err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return err
	}
	s.baseline, err = s.takeBaseline(ctx)
	return err
}

// auditLog is the path of the API server's.
func (s *side) auditLog() string { return filepath.Join(s.dir, "audit.log") }

// user is whom an operator is to the API server.
func (s *side) user(operator string) string {
	if s.admin != "" {
		return s.admin
	}
	return "system:serviceaccount:" + s.namespace + ":" + operator
}

// patch merges JSON into an object.
func (s *side) patch(ctx context.Context, in place, name, text string) error {
	_, err := s.dynamic.Resource(in.resource).Namespace(in.namespace).
		Patch(ctx, name, types.MergePatchType, []byte(text), metav1.PatchOptions{FieldManager: "an-administrator"})
	return err
}
