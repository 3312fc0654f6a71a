package settings

import (
	"strconv"
	"strings"
)

// Chosen are settings from another source. Environment variables have precedence.
type Chosen struct {
	ReleaseLeases, APIServerTokens bool
	// CSIAddonsImage is the image of all containers of CSI-Addons.
	CSIAddonsImage string
	MaxAccessRules int
}

// After returns a lookup that finds what the given one finds, or else the chosen values.
func (c Chosen) After(lookup func(string) (string, bool)) func(string) (string, bool) {
	chosen := map[string]string{}
	if c.ReleaseLeases {
		chosen[envReleaseLeases] = strconv.FormatBool(true)
	}
	if c.APIServerTokens {
		chosen[envAPIServerTokens] = strconv.FormatBool(true)
	}
	if c.MaxAccessRules > 0 {
		chosen[envMaxAccessRules] = strconv.Itoa(c.MaxAccessRules)
	}
	return func(name string) (string, bool) {
		if value, found := lookup(name); found && value != "" {
			return value, true
		}
		if strings.HasPrefix(name, csiAddonsPrefix) && strings.HasSuffix(name, "_IMAGE") {
			return c.CSIAddonsImage, c.CSIAddonsImage != ""
		}
		value, found := chosen[name]
		return value, found
	}
}
