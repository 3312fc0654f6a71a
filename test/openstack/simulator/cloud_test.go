package simulator

import (
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
