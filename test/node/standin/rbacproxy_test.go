package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestProxyForwardsWhatTheAPIServerPermits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		path, authorization string
		want                int
	}{
		"permitted":     {"/metrics", "Bearer prometheus", http.StatusOK},
		"other path":    {"/debug", "Bearer prometheus", http.StatusForbidden},
		"other user":    {"/metrics", "Bearer nobody", http.StatusForbidden},
		"unknown token": {"/metrics", "Bearer stolen", http.StatusUnauthorized},
		"no token":      {"/metrics", "", http.StatusUnauthorized},
		"no bearer":     {"/metrics", "Basic cHJvbWV0aGV1cw==", http.StatusUnauthorized},
		"broken server": {"/broken", "Bearer prometheus", http.StatusInternalServerError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, "from upstream")
			})
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path,
				http.NoBody)
			request.Header.Set("Authorization", test.authorization)
			recorder := httptest.NewRecorder()
			guard{client: apiServer(), next: upstream}.ServeHTTP(recorder, request)
			if recorder.Code != test.want {
				t.Errorf("HTTP %d, want %d", recorder.Code, test.want)
			}
			forwarded := recorder.Body.String() == "from upstream"
			if forwarded != (test.want == http.StatusOK) {
				t.Errorf("the answer is %q", recorder.Body.String())
			}
		})
	}
}

// apiServer returns an API server that knows the tokens prometheus and nobody. It permits the user
// prometheus to get /metrics.
func apiServer() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(
		action k8stesting.Action,
	) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authentication.TokenReview)
		review.Status.User.Username = review.Spec.Token
		review.Status.Authenticated = review.Spec.Token != "stolen"
		return true, review, nil
	})
	client.PrependReactor("create", "subjectaccessreviews", func(
		action k8stesting.Action,
	) (bool, runtime.Object, error) {
		review := action.(k8stesting.CreateAction).GetObject().(*authorization.SubjectAccessReview)
		asked := *review.Spec.NonResourceAttributes
		if asked.Path == "/broken" {
			return true, nil, errors.New("the API server is broken")
		}
		review.Status.Allowed = review.Spec.User == "prometheus" &&
			asked == authorization.NonResourceAttributes{Path: "/metrics", Verb: "get"}
		return true, review, nil
	})
	return client
}
