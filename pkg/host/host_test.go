package host

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestChangedFileEndsTheProcess(t *testing.T) {
	t.Parallel()
	for name, known := range map[string][]byte{
		"content as read": []byte("old"), "content of now": nil, "file that is missing": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "config.yaml")
			if name != "file that is missing" {
				assert.NilError(t, os.WriteFile(file, []byte("old"), 0o600))
			}
			server := newAPIServer(t)
			o := server.options()
			o.RestartOn = map[string][]byte{file: known}
			err := Run(bounded(t), o, func(ctx context.Context, p Process) error {
				assert.Check(t, p.Config.Host == o.Config.Host && p.Events != nil && p.Clock != nil,
					"given %+v", p)
				err := os.WriteFile(file, []byte("new"), 0o600)
				<-ctx.Done()
				return err
			})
			assert.Check(t, err)
			assert.Check(t, is.DeepEqual([]string{"lease taken", "lease released"}, server.notes()), "order")
		})
	}
}

func TestRunReturnsFaultsBeforeWorkStarts(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*Options){
		"watching file": func(o *Options) { o.RestartOn = map[string][]byte{"..": nil} },
		"servingInfo.bindAddress": func(o *Options) {
			o.Operator.ServingInfo.BindAddress = "127.0.0.1:none"
		},
		"servingInfo.minTLSVersion": func(o *Options) {
			o.Operator.ServingInfo.MinTLSVersion = "VersionTLS9"
		},
		"servingInfo.cipherSuites": func(o *Options) {
			o.Operator.ServingInfo.CipherSuites = []string{"ROT13"}
		},
		"preparing leader election: ": func(o *Options) {
			o.Operator.LeaderElection.RenewDeadline.Duration = time.Hour
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			o := newAPIServer(t).options()
			change(&o)
			err := Run(bounded(t), o, func(context.Context, Process) error {
				t.Error("works all the same")
				return nil
			})
			assert.Check(t, is.ErrorContains(err, want))
		})
	}
}
