package sidecar

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// maxDeadline limits the deadline that a caller sets.
const maxDeadline = time.Hour

// limit is a gRPC interceptor that limits the duration of a call: by the deadline of the caller if
// it sets one, otherwise by the timeout.
func (s *Settings) limit(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler,
) (any, error) {
	allowed := s.Timeout
	if _, ok := ctx.Deadline(); ok {
		allowed = max(allowed, maxDeadline)
	}
	ctx, cancel := context.WithTimeout(ctx, allowed)
	defer cancel()
	return handler(ctx, request)
}
