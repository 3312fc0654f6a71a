//go:build integration

package integration

import (
	"context"
	"testing"

	"gotest.tools/v3/assert"
)

// scope is a running test or subtest.
type scope struct {
	t *testing.T
}

// must fails the test if err is not nil.
func (s *scope) must(err error) {
	s.t.Helper()
	assert.NilError(s.t, err)
}

func (s *scope) ctx() context.Context { return s.t.Context() }

// sub runs a subtest. A failure within part fails the subtest.
func (s *scope) sub(name string, part func(t *testing.T)) {
	s.t.Run(name, func(t *testing.T) {
		outer := s.t
		s.t = t
		defer func() { s.t = outer }()
		part(t)
	})
}

// part is a part of a test that has an environment for several. It leaves the driver available.
type part struct {
	name string
	run  func()
}

// parts runs subtests in the environment of the test, in this order. Tests share an environment in
// this way because a new one takes seconds.
func (s *scope) parts(all ...part) {
	for _, p := range all {
		s.sub(p.name, func(*testing.T) { p.run() })
	}
}

// afterwards calls restore when the test ends, with a context that is not cancelled by then.
func (s *scope) afterwards(restore func(context.Context) error) {
	ctx := context.WithoutCancel(s.ctx())
	s.t.Cleanup(func() {
		assert.Check(s.t, restore(ctx), "cleaning up after the test")
	})
}
