package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// acceptedFor is how long the sidecar remembers an accepted token.
	acceptedFor = time.Minute
	// refusedFor is how long the sidecar remembers a refused token, so that its repetition causes no
	// request. A new permission takes effect after this time.
	refusedFor = 5 * time.Second
	// maxChecked is the number of tokens to remember.
	maxChecked = 1024
	// reviewTimeout limits the check of one token, with the wait for it.
	reviewTimeout = 10 * time.Second
	// reviewsPerSecond and reviewBurst limit the checks of tokens on connections without an accepted
	// token. The controller needs one check when it connects.
	reviewsPerSecond = 10
	reviewBurst      = 20
	// refusalsPerSecond and refusalBurst limit the log lines about refused calls.
	refusalsPerSecond = 1
	refusalBurst      = 10
)

// access checks the token of each call: who sends it, and whether that user may call.
type access struct {
	settings *Settings
	kube     kubernetes.Interface
	metrics  *Metrics
	// checked contains an error for the hash of each refused token, and nil for accepted ones.
	checked *cache.LRUExpireCache
	// reviews limits the checks of tokens, and refusals the log lines.
	reviews, refusals *rate.Limiter
}

func newAccess(s *Settings, kube kubernetes.Interface, m *Metrics) *access {
	return &access{
		settings: s, kube: kube, metrics: m, checked: cache.NewLRUExpireCache(maxChecked),
		reviews:  rate.NewLimiter(reviewsPerSecond, reviewBurst),
		refusals: rate.NewLimiter(refusalsPerSecond, refusalBurst),
	}
}

// check is a gRPC interceptor that refuses calls without a valid token.
func (a *access) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	err := a.accept(ctx)
	if err == nil {
		return handler(ctx, request)
	}
	a.metrics.refused.Inc()
	if a.refusals.Allow() {
		caller, _ := peer.FromContext(ctx)
		klog.FromContext(ctx).Info("Refused a call", "caller", caller.Addr.String(),
			"method", info.FullMethod, "reason", status.Convert(err).Message())
	}
	return nil, err
}

// accept returns an error unless the token of the call is valid. It reviews tokens that it does not
// remember. The next token of a client with an accepted token waits for no other client.
func (a *access) accept(ctx context.Context) error {
	token, err := a.token(ctx)
	if err != nil {
		return err
	}
	caller, hash := clientOf(ctx), sha256.Sum256([]byte(token))
	if found, ok := a.checked.Get(hash); ok {
		if refused, ok := found.(error); ok {
			return refused
		}
		caller.accepted.Store(true)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if !caller.accepted.Load() && a.reviews.Wait(ctx) != nil {
		return status.Error(codes.ResourceExhausted, "too many tokens are checked: try again later")
	}
	err = a.review(ctx, token)
	switch status.Code(err) {
	case codes.OK:
		a.checked.Add(hash, nil, acceptedFor)
		caller.accepted.Store(true)
	case codes.Unavailable: // the API server does not answer
	default:
		a.checked.Add(hash, err, refusedFor)
		caller.accepted.Store(false)
	}
	return err
}

// token returns the token in the metadata of a call. It returns an error for a token that does not
// claim the audience of the sidecar, without a request to the API server.
func (a *access) token(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, wire.TokenHeader)
	if len(values) != 1 {
		return "", status.Errorf(codes.Unauthenticated,
			"the call contains %d tokens: it must contain one in the metadata %q", len(values),
			wire.TokenHeader)
	}
	token, ok := strings.CutPrefix(values[0], wire.TokenPrefix)
	if !ok || token == "" {
		return "", status.Errorf(codes.Unauthenticated, "the token must follow %q", wire.TokenPrefix)
	}
	if audience := a.settings.Access.Audience; audience != "" && !claimsAudience(token, audience) {
		return "", status.Errorf(codes.Unauthenticated, "the token is not for the audience %q", audience)
	}
	return token, nil
}

// claimsAudience returns whether a token claims to be for an audience. It verifies nothing. The
// audience contains the UID of the pod, which only users who can read the pod know.
func claimsAudience(token, audience string) bool {
	const parts = 3
	fields := strings.SplitN(token, ".", parts+1)
	if len(fields) != parts {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(fields[1])
	if err != nil {
		return false
	}
	var claims struct {
		Audience []string `json:"aud"` // Kubernetes always writes a list
	}
	return json.Unmarshal(payload, &claims) == nil && slices.Contains(claims.Audience, audience)
}

// review gets the user of the token from the API server, and checks that this user may call.
func (a *access) review(ctx context.Context, token string) error {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	audience := a.settings.Access.Audience
	if audience != "" {
		review.Spec.Audiences = []string{audience}
	}
	review, err := a.kube.AuthenticationV1().TokenReviews().Create(ctx, review,
		metav1.CreateOptions{})
	switch {
	case err != nil:
		return status.Errorf(codes.Unavailable, "checking the token: %v", err)
	case !review.Status.Authenticated:
		return status.Errorf(codes.Unauthenticated,
			"the API server does not accept the token for the audience %q", audience)
	case audience != "" && !slices.Contains(review.Status.Audiences, audience):
		return status.Errorf(codes.Unauthenticated, "the token is not for the audience %q", audience)
	}
	return a.authorize(ctx, review.Status.User)
}

func (a *access) authorize(ctx context.Context, user authenticationv1.UserInfo) error {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: a.settings.Pod.Namespace, Verb: "create", Group: v1alpha1.Group,
			Version: v1alpha1.GroupVersion().Version, Resource: "csiaddonsnodes", Subresource: "calls",
		},
	}}
	review, err := a.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, review,
		metav1.CreateOptions{})
	if err != nil {
		return status.Errorf(codes.Unavailable, "checking the permission of user %s: %v",
			user.Username, err)
	}
	if !review.Status.Allowed {
		return status.Errorf(codes.PermissionDenied, "user %s may not create csiaddonsnodes/calls "+
			"in namespace %s", user.Username, a.settings.Pod.Namespace)
	}
	return nil
}
