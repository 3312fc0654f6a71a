package sharecloud

import (
	"math/rand/v2"
	"sync"
)

// NewRandom returns random numbers for a history: its own goroutine asks for them, and those of the
// requests that get faults do, too.
func NewRandom(seed, stream uint64) *rand.Rand {
	return rand.New(&source{pcg: rand.NewPCG(seed, stream)})
}

// source is a source that several goroutines may use.
type source struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

func (s *source) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}
