package manila

import (
	"context"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/sharecloud"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
)

// during calls check every second of the simulated time while a call runs, and returns its error.
func during(t *testing.T, call func(context.Context, ...string) error, check func(time.Duration),
) error {
	t.Helper()
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- call(t.Context(), fenced) }()
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-ticker.C:
			check(time.Since(began))
		}
	}
}

// The rules of a backend without manila-share stay queued.
func TestSharesOfADeadBackendDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number = 1000
		began := time.Now()
		assert.NilError(t, newCloud(number, slow()).fence(t.Context(), fenced))
		alone := time.Since(began)
		cloud, took := newCloud(number, slow()), time.Duration(0)
		cloud.Kill("b")
		err := during(t, cloud.fence, func(now time.Duration) {
			if took == 0 && cloud.admits(fenced, number) == number/2 {
				took = now
			}
		})
		assert.Check(t, is.Equal(status.Code(err), codes.Unavailable))
		assert.Check(t, is.Len(refusedNetworks(err), 0))
		assert.ErrorContains(t, err, "500 of 1000 shares did not change, of which 500 wait for Manila")
		assert.Check(t, took > 0 && took < alone*13/10, "took %v, alone %v", took, alone)
		t.Logf("alone %v, with a dead backend %v", alone, took)
		cloud.Revive("b")
		assert.NilError(t, cloud.fence(t.Context(), fenced))
		assert.Check(t, is.Equal(cloud.admits(fenced, number), 0), "shares that admit the client")
	})
}

// Another fence waits for the end of a call.
func TestCallEndsSoonIfOnlyWaitingSharesAreLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := slow()
		config.ApplyTime = 500 * time.Millisecond
		cloud := newCloud(9, config)
		cloud.share("late", "dead")
		cloud.Kill("dead")
		for _, client := range []string{fenced, neighbor} {
			began := time.Now()
			err := cloud.fence(t.Context(), client)
			assert.Check(t, is.Equal(status.Code(err), codes.Unavailable), "%v", err)
			assert.Check(t, is.Equal(cloud.admits(client, 9), 0))
			assert.Check(t, time.Since(began) <= 30*time.Second, "%v", time.Since(began))
			t.Logf("fenced %s, and ended after %v", client, time.Since(began))
		}
	})
}

func TestShareThatContinuesAtTheEndOfACallIsFenced(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number = 100
		cloud := newCloud(number, slow())
		cloud.share("late", "dead")
		cloud.Kill("dead")
		assert.NilError(t, during(t, cloud.fence, func(time.Duration) {
			if cloud.admits(fenced, number) == 0 {
				cloud.Revive("dead")
			}
		}))
		level, _ := cloud.Access("late", netip.MustParseAddr(fenced))
		assert.Check(t, is.Equal(level, ""))
	})
}

// Waiting shares cost lists, and no requests of their own.
func TestWaitingSharesArePolledTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number = 100
		cloud := newCloud(number, sharecloud.Config{ApplyTime: 20 * time.Minute})
		c := cloud.controller()
		c.pace.patience = time.Hour
		assert.NilError(t, fenceBy(t.Context(), c, fenced))
		calls := float64(cloud.Requests())/number - 38 // those of a share that does not wait
		assert.Check(t, calls < 5, "%v requests of each share wait", calls)
	})
}

// A call that ends at its deadline must have fenced some shares.
func TestSharesContinueWhileOthersBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number = 100
		cloud := newCloud(number, sharecloud.Config{
			RequestTime: 300 * time.Millisecond, ApplyTime: 2 * time.Second,
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := cloud.fence(ctx, fenced)
		assert.Check(t, is.Equal(status.Code(err), codes.DeadlineExceeded))
		assert.Check(t, cloud.admits(fenced, number) < number-16, "%v", err)
	})
}

// changeAtGrant returns a cloud that changes a share when a fence grants its first rule.
func changeAtGrant(change func(c *cloud, id string)) *cloud {
	var c *cloud
	config, changed := slow(), false
	config.Fault = func(call sharecloud.Call) sharecloud.Fault {
		if call.Method == "Grant" && call.ShareID == shareID(0) && !changed {
			changed = true
			change(c, call.ShareID)
		}
		return sharecloud.Fault{}
	}
	c = newCloud(2, config) // of different backends
	return c
}

func TestSharesThatManilaRefusesToChange(t *testing.T) {
	t.Parallel()
	const lacks = "lacks a valid host or is in an invalid state"
	for name, test := range map[string]struct {
		change func(c *cloud, id string)
		// want is a part of the error, and after what becomes of the share before the next call.
		want  string
		after func(c *cloud, id string)
	}{
		"deleted":                   {change: func(c *cloud, id string) { c.Delete(id) }},
		"deleted by a dead backend": {change: func(c *cloud, id string) { c.Kill("a"); c.Delete(id) }},
		"extended for a moment": {change: func(c *cloud, id string) {
			c.Become(id, sharestate.Extending, 5*time.Second)
		}},
		"migrated": {
			change: func(c *cloud, id string) { // its status does not show it
				c.Become(id, sharestate.Available, 0, "migrating_to")
			}, want: lacks,
			after: func(c *cloud, id string) { c.Become(id, sharestate.Available, 0) },
		},
		"reverted": {
			change: func(c *cloud, id string) { c.Become(id, sharestate.Reverting, time.Hour) }, want: lacks,
			after: func(*cloud, string) { <-time.After(time.Hour) },
		},
		"in the recycle bin": {
			change: func(c *cloud, id string) { c.Recycle(id, true) },
			want:   "since it has been soft deleted",
			after:  func(c *cloud, id string) { c.Recycle(id, false) },
		},
		"not deleted": { // Manila accepts rules, and the backend may refuse them
			change: func(c *cloud, id string) {
				c.Break("a", true)
				c.Become(id, sharestate.ErrorDeleting, 0)
			}, want: "Manila failed to grant access",
			after: func(c *cloud, _ string) { c.Break("a", false) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				cloud := changeAtGrant(test.change)
				began := time.Now()
				err := cloud.fence(t.Context(), fenced)
				took := time.Since(began)
				assert.Check(t, took < 40*time.Second, "the call took %v", took)
				level, _ := cloud.Access(shareID(1), netip.MustParseAddr(fenced))
				assert.Check(t, is.Equal(level, ""), "access to the other share")
				if test.want == "" {
					assert.NilError(t, err)
					return
				}
				assert.Check(t, is.Equal(status.Code(err), codes.Unavailable))
				assert.Check(t, is.Len(refusedNetworks(err), 0))
				assert.ErrorContains(t, err, "1 of 2 shares did not change")
				assert.ErrorContains(t, err, "share "+shareID(0)+": ")
				assert.ErrorContains(t, err, test.want)
				test.after(cloud, shareID(0))
				assert.NilError(t, cloud.fence(t.Context(), fenced))
				assert.Check(t, is.Equal(cloud.admits(fenced, 2), 0), "shares that admit the client")
			})
		})
	}
}

var errLost = &openstack.Error{Reason: openstack.CloudUnreachable, Message: "no answer"}

// trailer receives the trailer of a call.
type trailer struct {
	grpc.ServerTransportStream
	metadata.MD
}

// SetTrailer implements grpc.ServerTransportStream.
func (t *trailer) SetTrailer(md metadata.MD) error {
	t.MD = md
	return nil
}

func TestAnswerCountsTheSharesThatChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cloud := newCloud(3, slow())
		for _, want := range []string{"3", "0"} {
			got := &trailer{}
			ctx := grpc.NewContextWithServerTransportStream(t.Context(), got)
			assert.NilError(t, cloud.fence(ctx, fenced))
			assert.Check(t, is.DeepEqual(got.Get(wire.ChangedSharesTrailer), []string{want}))
		}
	})
}

func TestRecordThatCannotBeWrittenFailsTheOperation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config, broken := slow(), ""
		config.Fault = func(call sharecloud.Call) sharecloud.Fault {
			if call.Method == broken {
				return sharecloud.Fault{Err: errLost}
			}
			return sharecloud.Fault{}
		}
		cloud := newCloud(1, config)
		broken = "SetMetadata"
		assert.ErrorContains(t, cloud.fence(t.Context(), fenced), "recording the access rules: no answer")
		assert.Check(t, is.Len(cloud.Rules(shareID(0)), 1))
		broken = ""
		assert.NilError(t, cloud.fence(t.Context(), fenced))
		broken = "DeleteMetadata"
		assert.ErrorContains(t, cloud.unfence(t.Context(), fenced), "updating the record")
		broken = ""
		assert.NilError(t, cloud.unfence(t.Context(), fenced))
		assert.Check(t, is.Len(cloud.Metadata(shareID(0)), 1))
	})
}

func TestShareWithAnErrorDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		config := slow()
		config.Fault = func(call sharecloud.Call) sharecloud.Fault {
			if call.ShareID == shareID(1) {
				return sharecloud.Fault{Err: errLost, Delay: time.Minute}
			}
			return sharecloud.Fault{}
		}
		cloud := newCloud(100, config)
		err := cloud.fence(t.Context(), fenced)
		assert.ErrorContains(t, err, "1 of 100 shares did not change: share "+shareID(1)+": no answer")
		assert.Check(t, is.Equal(cloud.admits(fenced, 100), 1), "shares that admit the client")
	})
}
