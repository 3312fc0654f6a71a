package simulator

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIssuedTokensIncludeRevokedOnes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	var want []string
	for range 2 {
		provider, _, err := login(ctx, t, cloud, Clouds{})
		must(t, err)
		want = append(want, provider.Token())
		cloud.RevokeTokens()
	}
	if diff := cmp.Diff(want, cloud.IssuedTokens()); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestListsOfShareTypesAreShuffled(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a", "b")})
	service := manilaClient(ctx, t, cloud)
	cloud.SetShareTypeOrder(Shuffled)
	orders := map[string]bool{}
	for range 200 {
		names, err := typeNames(ctx, service)
		must(t, err)
		orders[strings.Join(names, "")] = true
	}
	if diff := cmp.Diff(map[string]bool{"ab": true, "ba": true}, orders); diff != "" {
		t.Errorf("orders of 200 lists (-want +got):\n%s", diff)
	}
}
