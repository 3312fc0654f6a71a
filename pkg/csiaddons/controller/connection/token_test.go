package connection

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"
)

// issued are the token requests that the fake API server has answered.
type issued struct {
	mu       sync.Mutex
	specs    []authenticationv1.TokenRequestSpec
	accounts []string
}

func newTokens(t *testing.T) (*Tokens, *issued, *testingclock.FakePassiveClock) {
	t.Helper()
	kube, requests := fake.NewClientset(), &issued{}
	kube.PrependReactor("create", "serviceaccounts",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			created := action.(clienttesting.CreateAction)
			request := created.GetObject().(*authenticationv1.TokenRequest).DeepCopy()
			requests.mu.Lock()
			defer requests.mu.Unlock()
			requests.specs = append(requests.specs, request.Spec)
			requests.accounts = append(requests.accounts,
				action.(clienttesting.CreateActionImpl).Name)
			request.Status.Token = string(rune('a' + len(requests.specs) - 1))
			return true, request, nil
		})
	clock := testingclock.NewFakePassiveClock(time.Now())
	return &Tokens{
		Client: kube.CoreV1().ServiceAccounts("system"), Account: "controller", Clock: clock,
		Unverified: "unverified",
		Pod:        &authenticationv1.BoundObjectReference{Kind: "Pod", Name: "p", UID: "1"},
	}, requests, clock
}

func (i *issued) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.specs)
}

func TestTokensAreForOneAudienceAndShortLived(t *testing.T) {
	t.Parallel()
	tokens, requests, _ := newTokens(t)
	var got []string
	for _, audience := range []string{"one", "two", "one"} {
		token, err := tokens.Get(t.Context(), audience)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, token)
	}
	if diff := cmp.Diff([]string{"a", "b", "a"}, got); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	first := requests.specs[0]
	if *first.ExpirationSeconds != 600 || first.BoundObjectRef.Name != "p" ||
		len(first.Audiences) != 1 || first.Audiences[0] != "one" {
		t.Errorf("the token is requested with %+v", first)
	}
}

// A sidecar that is not verified can use its token at the API server.
func TestTokenForTheAPIServerBelongsToAnotherAccount(t *testing.T) {
	t.Parallel()
	tokens, requests, _ := newTokens(t)
	for _, audience := range []string{"", "one"} {
		if _, err := tokens.Get(t.Context(), audience); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"unverified", "controller"}, requests.accounts); diff != "" {
		t.Errorf("ServiceAccounts of the tokens (-want +got):\n%s", diff)
	}
	if ref := requests.specs[0].BoundObjectRef; ref != nil {
		t.Errorf("the token is bound to %v, which another ServiceAccount uses", ref)
	}
}

func TestTokensAreRenewedEarly(t *testing.T) {
	t.Parallel()
	tokens, requests, clock := newTokens(t)
	for i, after := range []time.Duration{0, 7 * time.Minute, 2 * time.Minute} {
		clock.SetTime(clock.Now().Add(after))
		if _, err := tokens.Get(t.Context(), "one"); err != nil {
			t.Fatal(err)
		}
		if got, want := requests.count(), []int{1, 1, 2}[i]; got != want {
			t.Errorf("after %v there are %d requests, want %d", after, got, want)
		}
	}
	tokens.Forget("one")
	if _, err := tokens.Get(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if got := requests.count(); got != 3 {
		t.Errorf("there are %d requests after a sidecar has refused a token, want 3", got)
	}
}

func TestCallersShareARequest(t *testing.T) {
	t.Parallel()
	tokens, requests, _ := newTokens(t)
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			if _, err := tokens.Get(t.Context(), "one"); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if got := requests.count(); got != 1 {
		t.Errorf("20 callers cause %d requests, want one", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tokens.Forget("one")
	if _, err := tokens.Get(ctx, "one"); err != nil && ctx.Err() == nil {
		t.Errorf("a cancelled caller gets %v", err)
	}
}
