package simulator

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
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
	assert.Check(t, is.DeepEqual(want, cloud.IssuedTokens()), "tokens")
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
	assert.Check(t, is.DeepEqual(map[string]bool{"ab": true, "ba": true}, orders),
		"orders of 200 lists")
}
