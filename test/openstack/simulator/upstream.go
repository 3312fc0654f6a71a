package simulator

import (
	"bytes"
	"context"
	"io"
	"net/http/httptest"
	"slices"
)

// respond returns the answer of the services: those of Config.Upstream if set, otherwise the
// simulated ones.
func (s *Simulator) respond(ctx context.Context, c *call) reply {
	if s.config.Upstream == nil {
		return s.route(ctx, c)
	}
	forwarded := c.request.Clone(ctx)
	forwarded.Body = io.NopCloser(bytes.NewReader(c.body))
	forwarded.ContentLength = int64(len(c.body))
	recorder := httptest.NewRecorder()
	s.config.Upstream.ServeHTTP(recorder, forwarded)
	if token := recorder.Header().Get("X-Subject-Token"); c.login() && token != "" {
		s.record(token)
	}
	return replyOf(recorder)
}

// record keeps a token that the upstream has issued.
func (s *Simulator) record(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.loggedIn()
	if !slices.Contains(s.issued, token) {
		s.issued = append(s.issued, token)
	}
}
