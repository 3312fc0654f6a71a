package services

import (
	"strings"
	"testing"
)

func TestMissingPackagesAreNamedInOneLine(t *testing.T) {
	t.Parallel()
	const want = "run, as root, " +
		"RUNLEVEL=1 apt-get install --no-install-recommends python3-nova python3-cinder"
	got := missingError([]string{"python3-nova", "python3-cinder"}).Error()
	if !strings.HasSuffix(got, want) || strings.Contains(got, "\n") {
		t.Errorf("the error is %q, want one line that ends with %q", got, want)
	}
}
