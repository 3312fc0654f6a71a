package sidecar

import (
	"context"
	"testing"
	"time"
)

func TestDeadlineOfTheCallerReplacesTheTimeout(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		caller   time.Duration // 0 means none
		min, max time.Duration
	}{
		"none":     {0, 0, time.Minute},
		"shorter":  {30 * time.Second, 0, 30 * time.Second},
		"longer":   {30 * time.Minute, 2 * time.Minute, 30 * time.Minute},
		"too long": {5 * time.Hour, 2 * time.Minute, maxDeadline},
	} {
		ctx, cancel := t.Context(), func() {}
		if test.caller > 0 {
			ctx, cancel = context.WithTimeout(ctx, test.caller)
		}
		check := func(ctx context.Context, _ any) (any, error) {
			end, ok := ctx.Deadline()
			if left := time.Until(end); !ok || left < test.min || left > test.max {
				t.Errorf("%s: the operation may take %v, want %v to %v", name, left, test.min, test.max)
			}
			return nil, nil
		}
		if _, err := deadline(time.Minute).limit(ctx, nil, nil, check); err != nil {
			t.Error(err)
		}
		cancel()
	}
}
