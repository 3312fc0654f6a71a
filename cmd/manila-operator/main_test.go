package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// asOperator is an environment variable that makes the test binary run the operator.
const asOperator = "TEST_AS_OPERATOR"

func TestMain(m *testing.M) {
	if os.Getenv(asOperator) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run executes the operator with env as its environment.
func run(t *testing.T, env []string, args ...string) (code int, stderr string) {
	t.Helper()
	self, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append([]string{asOperator + "=1"}, env...)
	var out bytes.Buffer
	cmd.Stderr = &out
	err = cmd.Run()
	var exit *exec.ExitError
	assert.Assert(t, err == nil || errors.As(err, &exit), err)
	return cmd.ProcessState.ExitCode(), out.String()
}

func TestStartReportsAllMissingSettingsInOneLine(t *testing.T) {
	t.Parallel()
	code, stderr := run(t, nil, "start", "--config=/nowhere/config.yaml", "--poll-interval=1h")
	assert.Check(t, code != 0, "exits with 0")
	assert.Check(t, is.Equal(strings.Count(stderr, "\n"), 1), "lines of %s", stderr)
	for _, want := range []string{
		"--namespace", "--config", "/nowhere/config.yaml", "--poll-interval",
		" DRIVER_IMAGE", "NFS_DRIVER_IMAGE", "PROVISIONER_IMAGE", "RESIZER_IMAGE", "SNAPSHOTTER_IMAGE",
		"NODE_DRIVER_REGISTRAR_IMAGE",
		"LIVENESS_PROBE_IMAGE", "KUBE_RBAC_PROXY_IMAGE",
	} {
		assert.Check(t, strings.Contains(stderr, want), "nothing about %s in: %s", want, stderr)
	}
}

func TestUnknownArgumentIsRejected(t *testing.T) {
	t.Parallel()
	code, stderr := run(t, nil, "start", "now")
	assert.Check(t, code != 0 && strings.Contains(stderr, `unknown command "now"`), stderr)
}
