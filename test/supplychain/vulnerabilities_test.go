//go:build integration

package supplychain

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

func TestVulnerabilitiesFailTheCheck(t *testing.T) {
	t.Parallel()
	testdata, err := filepath.Abs("testdata")
	assert.NilError(t, err)
	database := "file://" + testdata + "/database"
	for name, test := range map[string]struct {
		database, program string
		code              int
		want              string
	}{
		"no database":          {"", "./calls", 0, "set GOVULNDB"},
		"vulnerable function":  {database, "./calls", 3, "GO-0000-0001"},
		"other function":       {database, "./imports", 0, "No vulnerabilities found"},
		"missing database":     {"file://" + testdata + "/missing", "./imports", 1, "no such file"},
		"malformed database":   {"file://" + testdata + "/broken", "./imports", 1, "unexpected EOF"},
		"unreachable database": {"https://127.0.0.1:1", "./imports", 1, "vulndb"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "../../hack/vulnerabilities.sh",
				filepath.Join(testdata, "module"), test.program)
			cmd.Env = append(cmd.Environ(), "GOVULNDB="+test.database)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			assert.Assert(t, err == nil || errors.As(err, &exit), err)
			if code := cmd.ProcessState.ExitCode(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			assert.Check(t, strings.Contains(string(out), test.want),
				"the output does not contain %q:\n%s", test.want, out)
		})
	}
}
