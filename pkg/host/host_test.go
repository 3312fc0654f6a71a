package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
			if err := os.WriteFile(file, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			server := newAPIServer(t)
			o := server.options()
			o.RestartOn = map[string][]byte{file: known}
			err := Run(bounded(t), o, func(ctx context.Context, p Process) error {
				if p.Config.Host != o.Config.Host || p.Events == nil || p.Clock == nil {
					t.Errorf("given %+v", p)
				}
				return replaceFile(ctx, file)
			})
			if err != nil {
				t.Errorf("got %v, want none", err)
			}
			if diff := cmp.Diff([]string{"lease taken", "lease released"}, server.notes()); diff != "" {
				t.Errorf("order (-want +got):\n%s", diff)
			}
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
	if err != nil {
		t.Errorf("got %v, want none", err)
	}
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
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
