package command

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/paths"
)

// runCommand runs one command line and returns its output.
func runCommand(ctx context.Context, dir paths.Dir, line string) (string, error) {
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(append(strings.Fields(line), "--dir="+string(dir)))
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// serveForTest runs `cloud serve` until the end of the test.
func serveForTest(t *testing.T, arguments string) paths.Dir {
	t.Helper()
	dir := paths.Dir(t.TempDir())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := runCommand(ctx, dir, "cloud serve "+arguments)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
		if _, err := os.Stat(dir.CloudControl()); !os.IsNotExist(err) {
			t.Errorf("the file with the address is left: %v", err)
		}
	})
	err := wait.PollUntilContextTimeout(ctx, 5*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(dir.CloudControl())
			return err == nil, nil
		})
	if err != nil {
		t.Fatal("serve did not write its address")
	}
	return dir
}

func TestCloudCommandsControlSimulator(t *testing.T) {
	t.Parallel()
	dir := serveForTest(t, "--share-types a,b --tls --regions north,south --token-ttl 5m")
	for _, step := range []struct {
		line string
		want string // part of the output
	}{
		{"info", `"authURL": "https://127.0.0.1:`},
		{"share-type list", `"name": "b"`},
		{"share-type add gold --default --description shiny", ""},
		{"share-type list", `"description": "shiny"`},
		{"share-type order reversed", ""},
		{"share-type remove a", ""},
		{"zones compute az1 az2 --unavailable=az3", ""},
		{"catalog remove sharev2", ""},
		{"catalog list", `"removed": true`},
		{"catalog restore sharev2", ""},
		{"outage hang --service share --path /share/v2/types --method get --times 3", "fault-1"},
		{"outage slow --delay 2s", "fault-2"},
		{"outages", `"delay": 2000000000`},
		{"outage slow", "fault-3"},
		{"outages", `"delay": 30000000000`},
		{"outage 503", "fault-4"},
		{"outages", `"status": 503`},
		{"outage bad-certificate --certificate expired", "fault-5"},
		{"outages", `"certificate": "expired"`},
		{"recover fault-1 fault-2", ""},
		{"outage reset", "fault-6"},
		{"outage garbage", "fault-7"},
		{"outage truncated", "fault-8"},
		{"outage empty-catalog", "fault-9"},
		{"outage reset-connect", "fault-10"},
		{"outage", "fault-11"},
		{"outages", `"mode": "unreachable"`},
		{"recover", ""},
		{"tokens revoke", "0"},
		{"tokens ttl 10m", ""},
		{"rotate-credentials --password changed", ""},
		{"clouds-yaml --cacert /etc/ca.crt --region south", `password: "changed"`},
		{"clouds-yaml --auth application-credential --no-region", "application_credential_id"},
		{"ca", "BEGIN CERTIFICATE"},
		{"log", "NUMBER"},
		{"log --since 1", "NUMBER"},
		{"log --reset", ""},
		{"counters", `"logins": 0`},
	} {
		out, err := runCommand(t.Context(), dir, "cloud "+step.line)
		if err != nil || !strings.Contains(out, step.want) {
			t.Errorf("%s: got error %v, output %q, want %q in it", step.line, err, out, step.want)
		}
	}
}

func TestCloudCommandsExplainMistakes(t *testing.T) {
	t.Parallel()
	dir := serveForTest(t, "")
	for line, want := range map[string]string{
		"serve":                            "runs here already",
		"serve --dir=DIR --listen nowhere": "missing port",
		"serve --dir=DIR --manila-max-version two": "not of the form",
		"info --dir=DIR":            "no OpenStack simulator is running",
		"share-type remove missing": "does not exist",
		"share-type order sideways": "unknown order",
		"share-type add":            "accepts 1 arg",
		"ca":                        "plain HTTP",
		"outage flood":              "unknown mode",
		"outage status":             "takes a status",
		"outage foreign":            "takes an answer",
		"outage 20":                 "is not an error",
		"recover fault-7":           "does not exist",
		"clouds-yaml --auth trust":  "unknown way to log in",
		"tokens ttl soon":           "decoding the lifetime",
		"zones share nova":          "has no availability zones",
		"catalog remove dns":        "no type",
		"rotate-credentials extra":  "unknown command",
		"counters and more words":   "unknown command",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			folder := dir
			if rest, other := strings.CutPrefix(line, "serve --dir=DIR"); other {
				line, folder = "serve"+rest, paths.Dir(t.TempDir())
			} else if rest, other := strings.CutSuffix(line, " --dir=DIR"); other {
				line, folder = rest, paths.Dir(t.TempDir())
			}
			_, err := runCommand(t.Context(), folder, "cloud "+line)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
}

func TestCommandsHaveHelp(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || (!cmd.HasSubCommands() && cmd.RunE == nil) {
			t.Errorf("%q has no help or does nothing", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())
}

func TestMainReturnsExitStatus(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	ok, failed := Main([]string{"--help"}, &out, &errOut), Main([]string{"nonsense"}, &out, &errOut)
	if ok != 0 || failed != 1 {
		t.Errorf("exit status is %d and %d, want 0 and 1", ok, failed)
	}
	if !strings.Contains(errOut.String(), `unknown command "nonsense"`) {
		t.Errorf("standard error is %q", errOut.String())
	}
}
