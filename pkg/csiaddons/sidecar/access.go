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

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/callers"
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
	// reviewTimeout limits the requests for the check of one token.
	reviewTimeout = 10 * time.Second
	// reviewsPerSecond and reviewBurst limit the unknown tokens of one network that are checked, on
	// connections without an accepted token. The controller needs one check when it connects.
	reviewsPerSecond = 1
	reviewBurst      = 20
	// maxReviews limits the checks at the same time, for clients with an accepted token and for all
	// others.
	maxReviews = 4
	// refusalInterval is the time between two log lines about refused calls from one network.
	refusalInterval = 10 * time.Second
	// maxNetworks is the number of networks to remember.
	maxNetworks = 1024
)

// access checks the token of each call: who sends it, and whether that user may call.
type access struct {
	settings *Settings
	kube     kubernetes.Interface
	// accepted contains the hashes of tokens, and refused the errors by hash.
	accepted, refused *cache.LRUExpireCache
	// reviews limits the checks of tokens, and refusals the log lines.
	reviews, refusals *callers.Limits
	// known and others limit the checks at the same time.
	known, others *semaphore.Weighted
}

func newAccess(s *Settings, kube kubernetes.Interface) *access {
	return &access{
		settings: s, kube: kube,
		accepted: cache.NewLRUExpireCache(maxAccepted),
		refused:  cache.NewLRUExpireCache(maxRefused),
		reviews:  callers.New(reviewsPerSecond, reviewBurst, maxNetworks),
		refusals: callers.New(rate.Every(refusalInterval), 1, maxNetworks),
		known:    semaphore.NewWeighted(maxReviews),
		others:   semaphore.NewWeighted(maxReviews),
	}
}

// check is a gRPC interceptor. It logs who sends calls that it refuses.
func (a *access) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	if err := a.accept(ctx, callerOf(ctx)); err != nil {
		a.log(ctx, info.FullMethod, err)
		return nil, err
	}
	return handler(ctx, request)
}

// screen refuses a call without a token for this sidecar. gRPC calls it before it reads the request
// of the call, so that strangers cannot fill the memory with requests. gRPC keeps the context of a
// call that it refuses until the connection is closed, so it limits the calls of a stranger.
func (a *access) screen(ctx context.Context, call *tap.Info) (context.Context, error) {
	if clientOf(ctx).exceeds() {
		return nil, status.Error(codes.ResourceExhausted,
			"the connection is closed: too many calls without an accepted token")
	}
	token, err := bearer(call.Header)
	audience := a.settings.Access.Audience
	if err == nil && audience != "" && !claimsAudience(token, audience) {
		err = status.Errorf(codes.Unauthenticated, "the token is not for the audience %q", audience)
	}
	if err != nil {
		a.log(ctx, call.FullMethodName, err)
		return nil, err
	}
	return ctx, nil
}

// log logs a call that is refused.
func (a *access) log(ctx context.Context, method string, reason error) {
	if caller := callerOf(ctx); a.refusals.Allow(caller) {
		klog.FromContext(ctx).Info("Refused a call", "caller", caller, "method", method,
			"reason", status.Convert(reason).Message())
	}
}

// accept returns an error unless the token of the call is valid. It reviews unknown tokens.
func (a *access) accept(ctx context.Context, caller string) error {
	sent, _ := metadata.FromIncomingContext(ctx)
	token, err := bearer(sent)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(token))
	if _, ok := a.accepted.Get(hash); ok {
		clientOf(ctx).know()
		return nil
	}
	if found, ok := a.refused.Get(hash); ok {
		return found.(error)
	}
	turn, err := a.turn(ctx, caller)
	if err != nil {
		return err
	}
	defer turn.Release(1)
	if err := a.review(ctx, token); err != nil {
		if status.Code(err) != codes.Unavailable {
			a.refused.Add(hash, err, refusedFor)
			clientOf(ctx).accepted.Store(false)
		}
		return err
	}
	a.accepted.Add(hash, true, acceptedFor)
	clientOf(ctx).know()
	return nil
}

// turn waits for the turn of a check of a token. The next tokens of a client that has sent a valid
// one wait for no other client: not even for those that share its address.
func (a *access) turn(ctx context.Context, caller string) (*semaphore.Weighted, error) {
	turn := a.known
	if !clientOf(ctx).accepted.Load() {
		turn = a.others
		if !a.reviews.Allow(caller) {
			return nil, status.Error(codes.ResourceExhausted,
				"too many tokens from this network are checked: try again later")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	if err := turn.Acquire(ctx, 1); err != nil {
		return nil, status.Error(codes.ResourceExhausted, "too many tokens are checked: try again later")
	}
	return turn, nil
}

// claimsAudience returns whether a token claims to be for an audience. It verifies nothing. The
// audience contains the UID of the pod, which strangers do not know, so they cause no request to
// the API server.
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
func bearer(sent metadata.MD) (string, error) {
	values := sent.Get(wire.TokenHeader)
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
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
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
