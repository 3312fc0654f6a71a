package manila

import (
	"context"
	"sync"
	"time"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// pace is how long an operation waits for Manila.
type pace struct {
	// poll is the time until the first list of waiting shares. It doubles while none can continue.
	poll time.Duration
	// patience is how long an operation continues when only waiting shares are left.
	patience time.Duration
}

const (
	// maxPoll limits the time between two lists, and maxDelay that between two attempts to change a
	// share that Manila refuses to change.
	maxPoll  = 30 * time.Second
	maxDelay = 2 * time.Minute
)

// schedule advances the shares of an operation, some at the same time. A share that waits for
// Manila takes no part in it until a list of all shares of the operation, or an attempt from time
// to time, shows that it can continue.
type schedule struct {
	*worker
	pace

	ready, waiting []*job
	// running is the number of shares that are advanced now.
	running int
	ended   chan *job
	// progress is the time of the last change, lastPoll that of the last list, and interval the time
	// until the next.
	progress, lastPoll time.Time
	interval           time.Duration
	// polled receives whether Manila still works on the rules of shares, by their IDs.
	polled chan map[string]bool
}

func newSchedule(w *worker, p pace) *schedule {
	return &schedule{
		worker: w, pace: p, interval: p.poll, ended: make(chan *job),
		polled: make(chan map[string]bool, 1),
	}
}

// run returns when all shares are done, when no waiting share has made progress for a while, or
// when ctx is done.
func (s *schedule) run(ctx context.Context) {
	var lists sync.WaitGroup
	defer lists.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.progress, s.lastPoll = time.Now(), time.Now()
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	polling, done := false, ctx.Done()
	for {
		for s.running < concurrentShares && len(s.ready) > 0 && ctx.Err() == nil {
			s.start(ctx)
		}
		idle := s.running == 0 && len(s.ready) == 0
		if s.running == 0 && ctx.Err() != nil || idle && s.over() {
			return
		}
		timer.Reset(s.untilWake(polling, idle))
		select {
		case j := <-s.ended:
			s.end(j)
		case busy := <-s.polled:
			polling, s.lastPoll = false, time.Now()
			s.resume(busy, idle)
		case <-timer.C:
			if !polling && len(s.waiting) > 0 && time.Since(s.lastPoll) >= s.interval {
				polling = true
				lists.Go(func() { s.polled <- s.busy(ctx) })
			}
		case <-done:
			done = nil
		}
	}
}

// over returns whether only shares are left that have not made progress for a while.
func (s *schedule) over() bool {
	return len(s.waiting) == 0 || time.Since(s.progress) >= s.patience
}

// untilWake returns the time until the next list, or until the end.
func (s *schedule) untilWake(polling, idle bool) time.Duration {
	wait := maxPoll
	if !polling && len(s.waiting) > 0 {
		wait = time.Until(s.lastPoll.Add(s.interval))
	}
	if idle {
		wait = min(wait, time.Until(s.progress.Add(s.patience)))
	}
	return max(wait, 0)
}

func (s *schedule) start(ctx context.Context) {
	j := s.ready[0]
	s.ready = s.ready[1:]
	s.running++
	go func() {
		s.advance(ctx, j)
		s.ended <- j
	}()
}

// end takes a share that was advanced.
func (s *schedule) end(j *job) {
	s.running--
	if j.waits == nil || j.stepped {
		s.progress, j.delay = time.Now(), 0
	}
	if j.waits != nil {
		s.wait(j)
	}
	if s.running == 0 && len(s.ready) == 0 { // little time is left
		s.interval = s.poll
	}
}

func (s *schedule) wait(j *job) {
	j.delay = min(max(2*j.delay, s.poll), maxDelay)
	j.next = time.Now().Add(j.delay)
	s.waiting = append(s.waiting, j)
}

// busy lists the shares with the mark of a fence, and returns those whose rules Manila changes.
// After an error each share is read alone.
func (s *schedule) busy(ctx context.Context) map[string]bool {
	found, _ := s.List(ctx, shares.FenceKey, s.cluster)
	busy := map[string]bool{}
	for _, share := range found {
		busy[share.ID] = share.RulesStatus == syncingStatus
	}
	return busy
}

// resume lets shares continue, first those that are part of the operation for longest. Manila shows
// no state of others, such as those that it refuses to change, so they are tried from time to time.
func (s *schedule) resume(busy map[string]bool, idle bool) {
	var resumed, waiting []*job
	for _, j := range s.waiting {
		if busy[j.share.ID] || !idle && time.Now().Before(j.next) {
			waiting = append(waiting, j)
		} else {
			resumed = append(resumed, j)
		}
	}
	s.waiting, s.ready = waiting, append(resumed, s.ready...)
	s.interval = min(2*s.interval, maxPoll)
	if len(resumed) > 0 {
		s.interval = s.poll
	}
}
