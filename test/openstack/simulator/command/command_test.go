package command

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const patience = 20 * time.Second

// run runs one command line and returns what it printed.
func run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	root := New()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&out)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

// served runs "serve" for the time of the test and returns its state file.
func served(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.json")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		_, err := run(ctx, append([]string{"serve", "--state-file", file}, args...)...)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("the state file is left behind: %v", err)
		}
	})
	deadline := time.After(patience)
	for {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("serve ended early with %v", err)
		case <-deadline:
			t.Fatal("serve wrote no state file")
		case <-time.After(5 * time.Millisecond):
			if _, err := os.Stat(file); err == nil {
				return file
			}
		}
	}
}

func TestDriving(t *testing.T) {
	t.Parallel()
	file := served(t, "--share-types", "a,b", "--tls", "--regions", "north,south", "--token-ttl", "5m")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var info simulator.Info
	if err := json.Unmarshal(content, &info); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		args string
		want string // part of the output
	}{
		{"info", info.AuthURL},
		{"types list", `"name": "b"`},
		{"types add gold --default --description shiny", ""},
		{"types list", `"description": "shiny"`},
		{"types order reversed", ""},
		{"types remove a", ""},
		{"zones set compute az1 az2=down", ""},
		{"zones list compute", `"unavailable": true`},
		{"catalog remove sharev2", ""},
		{"catalog list", `"removed": true`},
		{"catalog restore sharev2", ""},
		{"fault set hang --service share --path /share/v2/types --method get --times 3", "fault-1"},
		{"fault set slow --delay 2s", "fault-2"},
		{"fault set status --status 503", "fault-3"},
		{"fault set bad-certificate --certificate expired", "fault-4"},
		{"fault list", `"certificate": "expired"`},
		{"fault clear fault-1 fault-2", ""},
		{"fault clear", ""},
		{"tokens revoke", "0 revoked"},
		{"tokens ttl 10m", ""},
		{"credentials rotate --password changed", ""},
		{"clouds-yaml --cacert /etc/ca.crt --region south", `password: "changed"`},
		{"clouds-yaml --auth application-credential --no-region", "application_credential_id"},
		{"ca", "BEGIN CERTIFICATE"},
		{"log", "NUMBER"},
		{"log --json --since 1", "[]"},
		{"log --reset", ""},
		{"counters", `"logins": 0`},
	}
	for i, step := range steps {
		where := []string{"--state-file", file}
		if i%2 == 0 {
			where = []string{"--control", info.Control}
		}
		out, err := run(t.Context(), append(where, strings.Fields(step.args)...)...)
		if err != nil || !strings.Contains(out, step.want) {
			t.Errorf("%s: got error %v, output %q, want %q in it", step.args, err, out, step.want)
		}
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	file := served(t)
	tests := map[string]string{
		"types list":                                        "Give --control URL or --state-file FILE",
		"types list --state-file nowhere.json":              "reading the state file",
		"types remove missing --state-file " + file:         "does not exist",
		"ca --state-file " + file:                           "plain HTTP",
		"fault set flood --state-file " + file:              "unknown mode",
		"clouds-yaml --auth trust --state-file " + file:     "unknown way to log in",
		"tokens ttl soon --state-file " + file:              "reading the duration",
		"zones list share --state-file " + file:             "has no availability zones",
		"serve --listen nowhere":                            "missing port",
		"info --control http://127.0.0.1:1":                 "refused",
		"types order sideways --state-file " + file:         "unknown order",
		"catalog remove dns --state-file " + file:           "no type",
		"credentials rotate extra --state-file " + file:     "unknown command",
		"counters and more words --state-file " + file:      "unknown command",
		"zones set compute=x az --state-file " + file:       "has no availability zones",
		"types add  --state-file " + file:                   "accepts 1 arg",
		"serve --manila-max-version two":                    "not of the form",
		"fault clear fault-7 --state-file " + file:          "does not exist",
		"fault set status --status 20 --state-file " + file: "is not an error",
	}
	for line, want := range tests {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			if _, err := run(t.Context(), strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
}

func TestMainStatus(t *testing.T) {
	t.Parallel()
	var out, errOut bytes.Buffer
	got := []int{Main([]string{"--help"}, &out, &errOut), Main([]string{"nonsense"}, &out, &errOut)}
	if diff := cmp.Diff([]int{0, 1}, got); diff != "" {
		t.Errorf("exit status (-want +got):\n%s", diff)
	}
	if !strings.Contains(errOut.String(), `unknown command "nonsense"`) {
		t.Errorf("standard error is %q", errOut.String())
	}
}

// TestHelp makes sure that every command says what it does, and does something.
func TestHelp(t *testing.T) {
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
	visit(New())
}
