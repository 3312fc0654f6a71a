package sidecar

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineOfTheCallerReplacesTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // the time of the bubble stands still
		for caller, want := range map[time.Duration]time.Duration{
			0:                time.Minute, // none
			30 * time.Second: 30 * time.Second,
			30 * time.Minute: 30 * time.Minute,
			5 * time.Hour:    maxDeadline,
		} {
			ctx, cancel := t.Context(), func() {}
			if caller > 0 {
				ctx, cancel = context.WithTimeout(ctx, caller)
			}
			check := func(ctx context.Context, _ any) (any, error) {
				if end, _ := ctx.Deadline(); time.Until(end) != want {
					t.Errorf("%v: the operation may take %v, want %v", caller, time.Until(end), want)
				}
				return nil, nil
			}
			if _, err := (&Settings{Timeout: time.Minute}).limit(ctx, nil, nil, check); err != nil {
				t.Error(err)
			}
			cancel()
		}
	})
}
