//go:build integration

package logins_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// TestValuesLogInAsTheDriversOfOtherCharts compares what the driver does with what people wrote for
// it, and what the operator does with the values that are printed from that: login and endpoints.
func TestValuesLogInAsTheDriversOfOtherCharts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	drivers := programs(t)
	p := drivers[len(drivers)-1]
	for _, one := range readConfs(t) {
		if one.Refused != "" {
			continue
		}
		t.Run(one.Name, func(t *testing.T) {
			t.Parallel()
			c := w.cloud(t, row{TLS: one.TLS, Catalog: "interfaces"})
			if one.Name == "other sections" {
				c = w.cloud(t, row{TLS: one.TLS, Catalog: "two regions"})
			}
			folder := one.write(t, w, c)
			wantedEndpoints, err := p.run(t, folder)
			assert.NilError(t, err)
			for name, url := range wantedEndpoints {
				wantedEndpoints[name] = strings.TrimPrefix(url, c.URL)
			}
			wanted, _ := c.take()
			content, remarks := one.values(t, folder)
			endpoints, err := login(t, content, c, one.driver())
			assert.NilError(t, err, remarks)
			got, _ := c.take()
			assert.Check(t, is.DeepEqual(wanted, got))
			assert.Check(t, is.DeepEqual(wantedEndpoints, endpoints))
		})
	}
}
