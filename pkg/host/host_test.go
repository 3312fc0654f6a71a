package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

// replaceFile is the work of a process that changes a file and waits for its end.
func replaceFile(ctx context.Context, file string) error {
	err := os.WriteFile(file, []byte("new"), 0o600)
	<-ctx.Done()
	return err
}

func TestChangedFileEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, known := range map[string][]byte{
		"content as read": []byte("old"),
		"content of now":  nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			assert.NilError(t, os.WriteFile(file, []byte("old"), 0o600))
			server := newAPIServer(t)
			o := server.options()
			o.RestartOn = map[string][]byte{file: known}
			err := Run(bounded(t), o, func(ctx context.Context, p Process) error {
				assert.Check(t, p.Config.Host == o.Config.Host && p.Events != nil && p.Clock != nil,
					"given %+v", p)
				return replaceFile(ctx, file)
			})
			assert.Check(t, err)
			assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, server.notes()), "order")
		})
	}
}

func TestNewFileEndsTheProcess(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "later")
	o := newAPIServer(t).options()
	o.RestartOn = map[string][]byte{file: nil}
	err := Run(bounded(t), o, func(ctx context.Context, _ Process) error {
		return replaceFile(ctx, file)
	})
	assert.Check(t, err)
}

func TestRunReturnsFaultsBeforeWorkStarts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"watched folder": {
			func(o *Options) { o.RestartOn = map[string][]byte{"..": nil} },
			"watching file",
		},
		"address": {
			func(o *Options) { o.Operator.ServingInfo.BindAddress = "127.0.0.1:none" },
			"servingInfo.bindAddress",
		},
		"TLS version": {
			func(o *Options) { o.Operator.ServingInfo.MinTLSVersion = "VersionTLS9" },
			"servingInfo.minTLSVersion",
		},
		"cipher": {
			func(o *Options) { o.Operator.ServingInfo.CipherSuites = []string{"ROT13"} },
			"servingInfo.cipherSuites",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newAPIServer(t).options()
			tt.change(&o)
			err := Run(bounded(t), o, func(context.Context, Process) error {
				t.Error("works all the same")
				return nil
			})
			assert.Check(t, err != nil && strings.Contains(err.Error(), tt.want),
				"got %v, want %s", err, tt.want)
		})
	}
}
