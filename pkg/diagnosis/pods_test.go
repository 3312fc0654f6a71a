package diagnosis

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestShortIsOneLineWithoutCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"two\n lines":                      "two lines",
		`Password: "a b" for me`:           "Password: *** for me",
		"Authorization: Bearer abc.def":    "Authorization: Bearer ***",
		"pull https://me:pw@registry/x":    "pull https://***@registry/x",
		`err="{\"password\":\"hunter2\"}"`: `err="{\"password\":***`,
		"Authorization: Basic abc=":        "Authorization: Basic ***",
		"run --os-password hunter2 now":    "run --os-password *** now",
		`{"X-Subject-Token": ["gAAAA"]}`:   `{"X-Subject-Token": [***]}`,
		`{"password": "a\"b c", "x": 1}`:   `{"password": ***, "x": 1}`,
		"passcode=123 ok":                  "passcode=*** ok",
		"https://user:p@ss/w@host/path":    "https://***@host/path",
		`token: "cut off`:                  "token: ***",
		strings.Repeat("ä", 300):           strings.Repeat("ä", 255) + "…",
	} {
		assert.Check(t, is.Equal(Short(text), want), "%q becomes", text)
	}
}
