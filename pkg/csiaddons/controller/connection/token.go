package connection

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// lifetime of a token, in seconds, is the shortest that the API server accepts.
	lifetime = 600
	// renewBefore is the remaining lifetime at which a new token is requested.
	renewBefore    = 2 * time.Minute
	requestTimeout = 10 * time.Second
)

// Tokens requests tokens of the ServiceAccounts of the controller.
type Tokens struct {
	// Client creates tokens in the namespace of the controller.
	Client  corev1client.ServiceAccountInterface
	Account string
	// Unverified is the ServiceAccount of tokens for the API server. It has no permissions, because
	// these tokens are sent to sidecars that are not verified.
	Unverified string
	// Pod is the pod of the controller; tokens of Account end with it. It may be nil.
	Pod *authenticationv1.BoundObjectReference
}

// request returns a new token for a sidecar. Only a sidecar that is verified gets one of Account,
// which neither the API server nor another pod accepts.
func (t *Tokens) request(ctx context.Context, target Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	account := t.Unverified
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To[int64](lifetime),
	}}
	if target.Security == Pinned {
		account = t.Account
		request.Spec.Audiences = []string{wire.Audience(target.PodUID)}
		request.Spec.BoundObjectRef = t.Pod
	}
	issued, err := t.Client.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of ServiceAccount %s: %w", account, err)
	}
	return issued.Status.Token, nil
}

// token is the token for the calls of one connection. It is kept until shortly before its end. gRPC
// sends it only after the TLS handshake, which verifies the key of the sidecar.
type token struct {
	tokens *Tokens
	target Target

	mu    sync.Mutex
	text  string
	renew time.Time
}

// GetRequestMetadata returns the header with the token. Calls at the same time share a request.
func (t *token) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !time.Now().Before(t.renew) {
		text, err := t.tokens.request(ctx, t.target)
		if err != nil {
			return nil, status.Error(codes.Unavailable, err.Error())
		}
		// The API server may give a longer lifetime. The clock of this process decides.
		t.text, t.renew = text, time.Now().Add(lifetime*time.Second-renewBefore)
	}
	return map[string]string{wire.TokenHeader: wire.TokenPrefix + t.text}, nil
}

// RequireTransportSecurity says that a token is never sent without TLS.
func (*token) RequireTransportSecurity() bool { return true }

// forgetRefused drops the token if the sidecar refuses it, so that the next call sends a new one.
func (t *token) forgetRefused() grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, cc *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		err := invoke(ctx, method, request, reply, cc, options...)
		if status.Code(err) == codes.Unauthenticated {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.renew = time.Time{}
		}
		return err
	}
}
