package sidecar

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net"
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
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

const (
	// maxToken is the maximum size of a token in bytes. Tokens of ServiceAccounts have about 1 KiB.
	maxToken = 16 << 10
	// acceptedFor is how long the sidecar remembers an accepted token.
	acceptedFor = time.Minute
	// maxAccepted is the number of tokens to remember. There is one controller.
	maxAccepted = 64
	// refusedFor is how long the sidecar remembers a refused token, so that its repetition causes no
	// request. A new permission takes effect after this time.
	refusedFor = 5 * time.Second
	maxRefused = 1024
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
	// accepted contains the hashes of tokens, and refused the errors by hash.
	accepted, refused *cache.LRUExpireCache
	// reviews limits the checks of tokens, and refusals the log lines.
	reviews, refusals *rate.Limiter
}

func newAccess(s *Settings, kube kubernetes.Interface, m *Metrics) *access {
	return &access{
		settings: s, kube: kube, metrics: m,
		accepted: cache.NewLRUExpireCache(maxAccepted),
		refused:  cache.NewLRUExpireCache(maxRefused),
		reviews:  rate.NewLimiter(reviewsPerSecond, reviewBurst),
		refusals: rate.NewLimiter(refusalsPerSecond, refusalBurst),
	}
}

// screen is a gRPC interceptor that refuses calls without a token for this sidecar. It causes no
// request to the API server.
func (a *access) screen(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	token, err := bearer(ctx)
	audience := a.settings.Access.Audience
	if err == nil && audience != "" && !claimsAudience(token, audience) {
		err = status.Errorf(codes.Unauthenticated, "the token is not for the audience %q", audience)
	}
	if err != nil {
		a.metrics.refused.WithLabelValues().Inc()
		a.log(ctx, info.FullMethod, err)
		return nil, err
	}
	return handler(ctx, request)
}

// check is a gRPC interceptor that refuses calls whose token is not valid.
func (a *access) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	if err := a.accept(ctx); err != nil {
		a.log(ctx, info.FullMethod, err)
		return nil, err
	}
	return handler(ctx, request)
}

// log logs who sends a call that is refused.
func (a *access) log(ctx context.Context, method string, reason error) {
	if a.refusals.Allow() {
		klog.FromContext(ctx).Info("Refused a call", "caller", callerOf(ctx), "method", method,
			"reason", status.Convert(reason).Message())
	}
}

// accept returns an error unless the token of the call is valid. It reviews tokens that it does not
// remember. The next token of a client with an accepted token waits for no other client.
func (a *access) accept(ctx context.Context) error {
	token, err := bearer(ctx)
	if err != nil {
		return err
	}
	caller, hash := clientOf(ctx), sha256.Sum256([]byte(token))
	if _, ok := a.accepted.Get(hash); ok {
		caller.accept()
		return nil
	}
	if found, ok := a.refused.Get(hash); ok {
		return found.(error)
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if !caller.accepted.Load() && a.reviews.Wait(ctx) != nil {
		return status.Error(codes.ResourceExhausted, "too many tokens are checked: try again later")
	}
	if err := a.review(ctx, token); err != nil {
		if status.Code(err) != codes.Unavailable {
			a.refused.Add(hash, err, refusedFor)
			caller.accepted.Store(false)
		}
		return err
	}
	a.accepted.Add(hash, true, acceptedFor)
	caller.accept()
	return nil
}

// claimsAudience returns whether a token claims to be for an audience. It verifies nothing. The
// audience contains the UID of the pod, which only users who can read the pod know. So other
// clients cause no request to the API server.
func claimsAudience(token, audience string) bool {
	const parts = 3
	fields := strings.Split(token, ".")
	if len(fields) != parts {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(fields[1])
	if err != nil {
		return false
	}
	var claims struct {
		Audience json.RawMessage `json:"aud"`
	}
	var several []string
	var one string
	if json.Unmarshal(payload, &claims) != nil {
		return false
	}
	if json.Unmarshal(claims.Audience, &several) == nil {
		return slices.Contains(several, audience)
	}
	return json.Unmarshal(claims.Audience, &one) == nil && one == audience
}

// callerOf returns the IP address of the caller, or "" if it has none.
func callerOf(ctx context.Context) string {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	host, _, err := net.SplitHostPort(caller.Addr.String())
	if err != nil {
		return ""
	}
	return host
}

// bearer returns the token in the metadata of a call.
func bearer(ctx context.Context) (string, error) {
	values := metadata.ValueFromIncomingContext(ctx, wire.TokenHeader)
	if len(values) != 1 {
		return "", status.Errorf(codes.Unauthenticated,
			"the call contains %d tokens: it must contain one in the metadata %q", len(values),
			wire.TokenHeader)
	}
	token, ok := strings.CutPrefix(values[0], wire.TokenPrefix)
	if !ok || token == "" || len(token) > maxToken {
		return "", status.Errorf(codes.Unauthenticated,
			"the token must follow %q and have at most %d bytes", wire.TokenPrefix, maxToken)
	}
	return token, nil
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

// authorize returns an error if the user may not call.
func (a *access) authorize(ctx context.Context, user authenticationv1.UserInfo) error {
	if len(a.settings.Access.ServiceAccounts) == 0 {
		return a.authorizeByAccessReview(ctx, user)
	}
	namespace, name, err := serviceaccount.SplitUsername(user.Username)
	if err != nil || !slices.Contains(a.settings.Access.ServiceAccounts, namespace+"/"+name) {
		return status.Errorf(codes.PermissionDenied,
			"user %s is not one of the ServiceAccounts in the flag --allowed-service-accounts",
			user.Username)
	}
	return nil
}

func (a *access) authorizeByAccessReview(
	ctx context.Context, user authenticationv1.UserInfo,
) error {
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
