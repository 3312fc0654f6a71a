package simulator

import (
	"fmt"
	"regexp"
	"strconv"
)

const headerManilaVersion = "X-Openstack-Manila-Api-Version"

// microversion is the version that a client wants the Manila API to behave like.
type microversion struct{ major, minor int }

var microversionText = regexp.MustCompile(`^([1-9][0-9]*)\.(0|[1-9][0-9]*)$`)

func parseMicroversion(text string) (microversion, error) {
	parts := microversionText.FindStringSubmatch(text)
	if parts == nil {
		return microversion{}, fmt.Errorf("API version %q is not of the form MajorNum.MinorNum", text)
	}
	major, majorErr := strconv.Atoi(parts[1])
	minor, minorErr := strconv.Atoi(parts[2])
	if majorErr != nil || minorErr != nil {
		return microversion{}, fmt.Errorf("API version %q is too large", text)
	}
	return microversion{major, minor}, nil
}

// String is the form used in headers.
func (v microversion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// atLeast compares within one major version or across.
func (v microversion) atLeast(other microversion) bool {
	return v.major > other.major || v.major == other.major && v.minor >= other.minor
}

// since returns whether the version is at least 2.minor.
func (v microversion) since(minor int) bool { return v.atLeast(microversion{2, minor}) }
