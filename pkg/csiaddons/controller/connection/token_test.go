package connection

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// newToken returns the token of a connection. It is the number of requests so far.
func newToken(target Target) (*token, *fake.Clientset) {
	kube, issued := fake.NewClientset(), 0
	kube.PrependReactor("create", "serviceaccounts",
		func(clienttesting.Action) (bool, runtime.Object, error) {
			issued++
			return true, &authenticationv1.TokenRequest{
				Status: authenticationv1.TokenRequestStatus{Token: strconv.Itoa(issued)},
			}, nil
		})
	return &token{target: target, tokens: &Tokens{
		Client: kube.CoreV1().ServiceAccounts("system"), Account: "controller",
		Unverified: "unverified",
		Pod:        &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "p", UID: "1"},
	}}, kube
}

// expectHeader compares the header of a call.
func expectHeader(t *testing.T, own *token, want string) {
	t.Helper()
	got, err := own.GetRequestMetadata(t.Context())
	assert.Check(t, err == nil && got[wire.TokenHeader] == wire.TokenPrefix+want,
		"the header is %v, want token %s: %v", got, want, err)
}

// A sidecar that is not verified can use its token at the API server. Others cannot.
func TestTokensAreForOnePodAndShortLived(t *testing.T) {
	t.Parallel()
	for security, want := range map[Security]struct {
		account string
		spec    authenticationv1.TokenRequestSpec
	}{
		Pinned: {"controller", authenticationv1.TokenRequestSpec{
			Audiences:      []string{"csiaddons.openshift.io/uid"},
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "p", UID: "1"},
		}},
		Unverified: {"unverified", authenticationv1.TokenRequestSpec{}},
	} {
		own, kube := newToken(Target{PodUID: "uid", Security: security})
		expectHeader(t, own, "1")
		created := kube.Actions()[0].(clienttesting.CreateActionImpl)
		want.spec.ExpirationSeconds = new(int64(600))
		got := created.Object.(*authenticationv1.TokenRequest).Spec
		if diff := cmp.Diff(want.spec, got); diff != "" || created.Name != want.account {
			t.Errorf("the token is one of %s, and requested with (-want +got):\n%s", created.Name, diff)
		}
	}
}

func TestTokensAreRenewedEarlyAndAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		own, _ := newToken(Target{})
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() { expectHeader(t, own, "1") })
		}
		callers.Wait()
		<-time.After(7 * time.Minute)
		expectHeader(t, own, "1")
		<-time.After(2 * time.Minute)
		expectHeader(t, own, "2")
		for _, one := range []struct {
			answer error
			token  string
		}{{nil, "2"}, {errors.New("lost"), "2"}, {status.Error(codes.Unauthenticated, ""), "3"}} {
			err := own.forgetRefused()(t.Context(), "", nil, nil, nil, func(context.Context, string, any,
				any, *grpc.ClientConn, ...grpc.CallOption,
			) error {
				return one.answer
			})
			assert.Check(t, errors.Is(err, one.answer), "the call returns %v, want %v", err, one.answer)
			expectHeader(t, own, one.token)
		}
	})
}
