package openstack

import (
	"errors"
	"net/http"
	"testing"

	"gotest.tools/v3/assert"
)

func TestRedirectStaysOnTheServer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from, to string
		refused  bool
	}{
		"default port of https, added":   {"https://k.example/v3", "https://k.example:443/v3/", false},
		"default port of https, removed": {"https://k.example:443/v3", "https://k.example/v3/", false},
		"default port of http":           {"http://k.example/v3", "http://k.example:80/v3/", false},
		"letters of the host":            {"http://k.example/v3", "http://K.Example/v3/", false},
		"https on the same host":         {"http://k.example:5000/v3", "https://k.example/v3", false},
		"port of the other scheme":       {"https://k.example/v3", "https://k.example:80/v3", true},
		"other port":                     {"https://k.example/v3", "https://k.example:5000/v3", true},
		"http again":                     {"https://k.example/v3", "http://k.example/v3", true},
		"other host":                     {"https://k.example/v3", "https://x.example/v3", true},
		"host as a prefix":               {"https://k.example/v3", "https://k.example.x/v3", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.from, nil)
			assert.NilError(t, err)
			to, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.to, nil)
			assert.NilError(t, err)
			err = checkRedirect(to, []*http.Request{from})
			assert.Check(t, test.refused == errors.Is(err, errRedirected) && (test.refused || err == nil),
				"refused=%v, got %v", test.refused, err)
		})
	}
}
