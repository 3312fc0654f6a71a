package host

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/request/union"
	"k8s.io/apiserver/pkg/authentication/request/x509"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
)

// The ConfigMap key in which each cluster publishes the CA of its client certificates.
const (
	clientCANamespace = metav1.NamespaceSystem
	clientCAName      = "extension-apiserver-authentication"
	clientCAKey       = "client-ca-file"
)

const (
	// tokenCacheTTL is longer than the scrape interval of 30 s, so that at most every second scrape
	// needs a TokenReview. Rejected tokens are cached for the same time.
	tokenCacheTTL = 35 * time.Second
	reviewTimeout = 5 * time.Second
)

// The permission to read the metrics. Components of Kubernetes require the same permission.
const metricsPath, metricsVerb = "/metrics", "get"

// prometheusAccount is the ServiceAccount of the Prometheus of OpenShift.
const prometheusAccount = "prometheus-k8s"

// metricsReaders is a group that exists only in this process. It contains the users who have the
// permission to read the metrics.
const metricsReaders = "csi-operator:metrics-readers"

// restricted passes requests of the cluster's Prometheus and of its administrators to next. It
// authenticates them by client certificate or token. If the cluster has no Prometheus of its own,
// it reads only tokens, also passes requests for /metrics of a user who has the permission to get
// this path, and needs no permission in kube-system.
func restricted(
	ctx context.Context, o Options, kube kubernetes.Interface, next http.Handler,
) (http.Handler, error) {
	if o.Operator.Authentication.Disabled || o.Operator.Authorization.Disabled {
		return next, nil
	}
	reviewer := tokenReviewer{reviews: kube.AuthenticationV1().TokenReviews()}
	if o.Monitoring == "" {
		reviewer.access = kube.AuthorizationV1().SubjectAccessReviews()
	}
	tokens := bearertoken.New(cache.New(reviewer, false, tokenCacheTTL, tokenCacheTTL))
	if o.Monitoring == "" {
		return &guard{authenticator: tokens, next: next}, nil
	}
	clientCA, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca",
		clientCANamespace, clientCAName, clientCAKey, kube)
	if err != nil {
		return nil, fmt.Errorf("watching the CA of client certificates: %w", err)
	}
	go clientCA.Run(ctx, 1)
	certificates := x509.NewDynamic(clientCA.VerifyOptions, x509.CommonNameUserConversion)
	return &guard{
		authenticator: union.New(certificates, tokens),
		prometheus:    serviceaccount.MakeUsername(o.Monitoring, prometheusAccount),
		next:          next,
	}, nil
}

type guard struct {
	authenticator authenticator.Request
	// prometheus is the user of the Prometheus of the cluster, "" if there is none.
	prometheus string
	next       http.Handler
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who, ok, err := g.authenticator.AuthenticateRequest(r)
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	if !g.allows(r, who.User) {
		http.Error(w, "Forbidden", http.StatusForbidden)
		return
	}
	g.next.ServeHTTP(w, r)
}

func (g *guard) allows(r *http.Request, who user.Info) bool {
	if r.Method != http.MethodGet {
		return false
	}
	reads := slices.Contains(who.GetGroups(), metricsReaders) ||
		g.prometheus != "" && who.GetName() == g.prometheus
	return slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup) ||
		reads && r.URL.Path == metricsPath
}

// tokenReviewer authenticates tokens with TokenReviews. The webhook authenticator of
// k8s.io/apiserver does the same, but links gRPC.
type tokenReviewer struct {
	reviews authenticationclient.TokenReviewInterface
	// access checks whether a user may read the metrics. It is nil if only the Prometheus of the
	// cluster may.
	access authorizationclient.SubjectAccessReviewInterface
}

func (t tokenReviewer) AuthenticateToken(ctx context.Context,
	token string,
) (*authenticator.Response, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	review, err := t.reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		return nil, false, err
	}
	who := review.Status.User
	info := &user.DefaultInfo{Name: who.Username}
	// guard checks no other groups from the TokenReview.
	if slices.Contains(who.Groups, user.SystemPrivilegedGroup) {
		info.Groups = append(info.Groups, user.SystemPrivilegedGroup)
	}
	allowed, err := t.mayReadMetrics(ctx, who)
	if err != nil {
		return nil, false, err
	}
	if allowed {
		info.Groups = append(info.Groups, metricsReaders)
	}
	return &authenticator.Response{User: info}, true, nil
}

func (t tokenReviewer) mayReadMetrics(
	ctx context.Context, who authenticationv1.UserInfo,
) (bool, error) {
	if t.access == nil {
		return false, nil
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range who.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{
			Path: metricsPath, Verb: metricsVerb,
		},
	}}
	review, err := t.access.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
