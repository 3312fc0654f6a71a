//go:build linux

package rest

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// The states that records of all kinds have.
const (
	Creating      = "creating"
	Available     = "available"
	Deleting      = "deleting"
	Failed        = "error"
	ErrorDeleting = "error_deleting"
	Extending     = "extending"
)

// Record is a volume, a share or a snapshot. The records of the services embed it.
type Record struct {
	ID, Name, Description, Status string
	// Size is in GiB.
	Size              int
	Metadata          map[string]string
	UserID, ProjectID string
	Created, Updated  time.Time
}

// NewRecord returns a record that a request creates.
func (r *Request) NewRecord() Record {
	return Record{
		ID: NewID(), Status: Creating, UserID: r.UserID, ProjectID: r.ProjectID, Created: time.Now(),
	}
}

// NewID returns the ID of a new record.
func NewID() string { return string(uuid.NewUUID()) }

// Base returns the record.
func (r *Record) Base() *Record { return r }

// Set changes the status.
func (r *Record) Set(status string) { r.Status, r.Updated = status, time.Now() }

// Store contains the records of one kind. Its methods Show, List and Delete answer requests. Hold
// the lock while you call the others.
type Store[T interface{ Base() *Record }] struct {
	// Lock protects the records. It is not held during an operation.
	Lock   *sync.Mutex
	Worker *state.Worker
	Data   state.Data
	// Name is the key of a record in an answer, such as volume. Links is the key of the link to the
	// next page, and NextPath its path; that of the request if it is empty.
	Name, Links, NextPath string
	// Missing returns the error of an ID that does not exist; the usual 404 if it is nil.
	Missing func(id string) error
	// Describe returns a record with the fields of the microversion, and Summarize those in a list;
	// all if it is nil.
	Describe, Summarize func(*Request, T) map[string]any
	// Keep returns whether the query asks for a record, besides its name and its status; nil if so.
	Keep func(*Request, T) bool
	// CanDelete returns the error of a record that must stay.
	CanDelete func(T) error

	records map[string]T
	copies  map[string][]<-chan struct{} // by the ID of the source; closed when they are complete
}

// Find returns a record, or the error of an ID that does not exist.
func (s *Store[T]) Find(id string) (T, error) {
	record, found := s.records[id]
	switch {
	case found:
		return record, nil
	case s.Missing != nil:
		return record, s.Missing(id)
	}
	return record, NotFound("")
}

// Count returns how many records have a property.
func (s *Store[T]) Count(property func(T) bool) (count int) {
	for _, record := range s.records {
		if property(record) {
			count++
		}
	}
	return count
}

// Operation is what happens to a record after the answer.
type Operation struct {
	// Work is nil if there is nothing to do.
	Work func(context.Context) error
	// Success and Failure are the states afterwards.
	Success, Failure string
	// Size is the size after a success; 0 if it stays.
	Size int
}

// Start begins an operation. The result is closed when it is complete.
func (s *Store[T]) Start(r *Request, record T, o Operation) <-chan struct{} {
	work := o.Work
	if work == nil {
		work = func(context.Context) error { return nil }
	}
	base := record.Base()
	return s.Worker.Start(r.Outcome, work, func(err error) {
		s.Lock.Lock()
		defer s.Lock.Unlock()
		if err != nil {
			base.Set(o.Failure)
			return
		}
		base.Set(o.Success)
		if o.Size > 0 {
			base.Size = o.Size
		}
	})
}

// Create adds a record whose data an operation makes, and returns what clients see of it.
func (s *Store[T]) Create(
	r *Request, record T, work func(context.Context) error,
) (content map[string]any, done <-chan struct{}) {
	if s.records == nil {
		s.records, s.copies = map[string]T{}, map[string][]<-chan struct{}{}
	}
	s.records[record.Base().ID] = record
	content = map[string]any{s.Name: s.Describe(r, record)}
	return content, s.Start(r, record, Operation{Work: work, Success: Available, Failure: Failed})
}

// Hold makes the removal of a record wait until a copy of it is complete.
func (s *Store[T]) Hold(id string, done <-chan struct{}) {
	s.copies[id] = append(s.copies[id], done)
}

// Show answers with the record of the path.
func (s *Store[T]) Show(r *Request) (Answer, error) {
	s.Lock.Lock()
	defer s.Lock.Unlock()
	record, err := s.Find(r.PathValue("id"))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Content: map[string]any{s.Name: s.Describe(r, record)}}, nil
}

// List answers with the records that the query asks for.
func (s *Store[T]) List(r *Request) (Answer, error) {
	s.Lock.Lock()
	defer s.Lock.Unlock()
	describe := s.Summarize
	if describe == nil {
		describe = s.Describe
	}
	return Collection[T]{
		Name: s.Name + "s", Links: s.Links, NextPath: s.NextPath, Missing: s.Missing,
		Keep: func(record T) bool {
			base := record.Base()
			return r.Matches("name", base.Name) && r.Matches("status", base.Status) &&
				(s.Keep == nil || s.Keep(r, record))
		},
		Created:  func(record T) time.Time { return record.Base().Created },
		Describe: func(record T) map[string]any { return describe(r, record) },
	}.Answer(r, s.records)
}

// Delete begins to delete the record of the path.
func (s *Store[T]) Delete(r *Request) (Answer, error) {
	s.Lock.Lock()
	defer s.Lock.Unlock()
	record, err := s.Find(r.PathValue("id"))
	if err == nil {
		err = s.CanDelete(record)
	}
	if err != nil {
		return Answer{}, err
	}
	base := record.Base()
	base.Set(Deleting)
	outcome := r.Outcome
	outcome.Held = slices.Concat(outcome.Held, s.copies[base.ID])
	delete(s.copies, base.ID)
	s.Worker.StartRemoval(outcome,
		func(err error) {
			s.Lock.Lock()
			defer s.Lock.Unlock()
			if err != nil {
				base.Set(ErrorDeleting)
				return
			}
			delete(s.records, base.ID)
		},
		func() error { return s.Data.Remove(base.ID) })
	return Answer{Status: http.StatusAccepted}, nil
}
