package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// guard passes on the requests that the API server permits.
type guard struct {
	client kubernetes.Interface
	next   http.Handler
}

// ServeHTTP returns 401 to users without a valid token, and 403 to users who have no permission for
// the path.
func (g guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, err := g.authenticate(r)
	if err != nil {
		klog.ErrorS(err, "Refused a request", "path", r.URL.Path)
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	allowed, err := g.authorize(r, user)
	switch {
	case err != nil:
		klog.ErrorS(err, "Authorization failed", "path", r.URL.Path)
		http.Error(w, "the authorization failed", http.StatusInternalServerError)
	case !allowed:
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, path=%s)", user.Username,
			verb(r.Method), r.URL.Path), http.StatusForbidden)
	default:
		g.next.ServeHTTP(w, r)
	}
}

// authenticate returns the user of the token in a request.
func (g guard) authenticate(r *http.Request) (authentication.UserInfo, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return authentication.UserInfo{}, errors.New("the request has no token")
	}
	review, err := g.client.AuthenticationV1().TokenReviews().Create(r.Context(),
		&authentication.TokenReview{Spec: authentication.TokenReviewSpec{Token: token}},
		metav1.CreateOptions{})
	if err != nil {
		return authentication.UserInfo{}, fmt.Errorf("creating a TokenReview: %w", err)
	}
	if !review.Status.Authenticated {
		return authentication.UserInfo{}, errors.New("the API server does not know the token")
	}
	return review.Status.User, nil
}

// authorize returns whether a user may send a request.
func (g guard) authorize(r *http.Request, user authentication.UserInfo) (bool, error) {
	extra := map[string]authorization.ExtraValue{}
	for key, value := range user.Extra {
		extra[key] = authorization.ExtraValue(value)
	}
	review, err := g.review(r.Context(), authorization.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorization.NonResourceAttributes{
			Path: r.URL.Path, Verb: verb(r.Method),
		},
	})
	if err != nil {
		return false, fmt.Errorf("creating a SubjectAccessReview: %w", err)
	}
	return review.Status.Allowed, nil
}

func (g guard) review(
	ctx context.Context, spec authorization.SubjectAccessReviewSpec,
) (*authorization.SubjectAccessReview, error) {
	return g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx,
		&authorization.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
}

// verb returns the verb of a method in RBAC rules for paths.
func verb(method string) string {
	return strings.ToLower(method)
}
