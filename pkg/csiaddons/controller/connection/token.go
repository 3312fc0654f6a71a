package connection

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"
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

// Tokens requests tokens of the ServiceAccount of the controller, and keeps each until shortly
// before its end. It is safe for concurrent use.
type Tokens struct {
	// Client creates tokens in the namespace of the controller.
	Client  corev1client.ServiceAccountInterface
	Account string
	// Unverified is the ServiceAccount of tokens for the API server. It has no permissions, because
	// these tokens are sent to sidecars that are not verified.
	Unverified string
	// Pod is the pod of the controller; tokens of Account end with it. It may be nil.
	Pod   *authenticationv1.BoundObjectReference
	Clock clock.PassiveClock

	requests singleflight.Group
	mu       sync.Mutex
	kept     map[string]kept
}

type kept struct {
	token string
	renew time.Time
}

// Get returns a valid token for an audience; "" means the API server.
func (t *Tokens) Get(ctx context.Context, audience string) (string, error) {
	if token := t.find(audience); token != "" {
		return token, nil
	}
	result := t.requests.DoChan(audience, func() (any, error) {
		if token := t.find(audience); token != "" {
			return token, nil
		}
		return t.request(context.WithoutCancel(ctx), audience)
	})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case r := <-result:
		if r.Err != nil {
			return "", r.Err
		}
		return r.Val.(string), nil
	}
}

func (t *Tokens) find(audience string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.kept[audience]; t.Clock.Now().Before(found.renew) {
		return found.token
	}
	return ""
}

// Forget drops the token for an audience.
func (t *Tokens) Forget(audience string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.kept, audience)
}

func (t *Tokens) request(ctx context.Context, audience string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	account := t.Unverified
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To[int64](lifetime),
	}}
	if audience != "" {
		account = t.Account
		request.Spec.Audiences, request.Spec.BoundObjectRef = []string{audience}, t.Pod
	}
	issued, err := t.Client.CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("requesting a token of ServiceAccount %s: %w", account, err)
	}
	// The API server may give a longer lifetime. The clock of this process decides.
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]kept{}
	}
	t.kept[audience] = kept{
		token: issued.Status.Token, renew: t.Clock.Now().Add(lifetime*time.Second - renewBefore),
	}
	return issued.Status.Token, nil
}

// bearer adds the token for one sidecar to each call of a connection. gRPC sends it only after the
// TLS handshake, which verifies the key of the sidecar.
type bearer struct {
	tokens   *Tokens
	audience string
}

// GetRequestMetadata returns the header with the token.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.tokens.Get(ctx, b.audience)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return map[string]string{wire.TokenHeader: wire.TokenPrefix + token}, nil
}

// RequireTransportSecurity says that a token is never sent without TLS.
func (bearer) RequireTransportSecurity() bool { return true }
