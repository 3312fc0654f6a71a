package sidecar

import (
	"context"
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
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
	// reviewTimeout limits the requests for the check of one token.
	reviewTimeout = 10 * time.Second
)

// access checks the token of each call: who sends it, and whether that user may call.
type access struct {
	settings *Settings
	kube     kubernetes.Interface
	peers    *peers
	// accepted contains the hashes of tokens.
	accepted *cache.LRUExpireCache
}

func newAccess(s *Settings, kube kubernetes.Interface) *access {
	return &access{
		settings: s, kube: kube,
		peers:    newPeers(),
		accepted: cache.NewLRUExpireCache(maxAccepted),
	}
}

// check is a gRPC interceptor. It logs who sends calls that it refuses.
func (a *access) check(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	caller := callerOf(ctx)
	limits := a.peers.limitsOf(caller)
	if err := a.accept(ctx, limits.reviews); err != nil {
		if limits.refusals.Allow() {
			klog.FromContext(ctx).Info("Refused a call", "caller", caller, "method", info.FullMethod,
				"reason", status.Convert(err).Message())
		}
		return nil, err
	}
	return handler(ctx, request)
}

// accept returns an error unless the token of the call is valid. It reviews unknown tokens.
func (a *access) accept(ctx context.Context, reviews *rate.Limiter) error {
	token, err := bearer(ctx)
	if err != nil {
		return err
	}
	hash := sha256.Sum256([]byte(token))
	if _, ok := a.accepted.Get(hash); ok {
		return nil
	}
	if !reviews.Allow() {
		return status.Error(codes.ResourceExhausted,
			"too many tokens from this IP address are checked: try again later")
	}
	if err := a.review(ctx, token); err != nil {
		return err
	}
	a.accepted.Add(hash, true, acceptedFor)
	return nil
}

// bearer returns the token of a call.
func bearer(ctx context.Context) (string, error) {
	sent, _ := metadata.FromIncomingContext(ctx)
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
