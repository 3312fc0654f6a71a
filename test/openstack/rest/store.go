package rest

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
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
	// Size is in GiB. Growth is what an operation that is not complete adds to it.
	Size, Growth      int
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
// the lock of the worker while you call the methods.
type Store[T interface{ Base() *Record }] struct {
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
	if !found {
		return record, s.missing(id)
	}
	return record, nil
}

func (s *Store[T]) missing(id string) error {
	if s.Missing != nil {
		return s.Missing(id)
	}
	return NotFound("")
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

// Each calls a function with each record.
func (s *Store[T]) Each(call func(T)) {
	for _, record := range s.records {
		call(record)
	}
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
	base := record.Base()
	base.Growth = cmp.Or(o.Size, base.Size) - base.Size
	return s.Worker.Start(r.Outcome, o.Work, func(err error) {
		base.Growth = 0
		if err != nil {
			base.Set(o.Failure)
			return
		}
		base.Set(o.Success)
		base.Size = cmp.Or(o.Size, base.Size)
	})
}

// Create adds a record whose data an operation makes, and returns what clients see of it.
func (s *Store[T]) Create(
	r *Request, record T, work func(context.Context) error,
) (content map[string]any, done <-chan struct{}) {
	s.add(record)
	content = map[string]any{s.Name: s.Describe(r, record)}
	return content, s.Start(r, record, Operation{Work: work, Success: Available, Failure: Failed})
}

func (s *Store[T]) add(record T) {
	if s.records == nil {
		s.records, s.copies = map[string]T{}, map[string][]<-chan struct{}{}
	}
	s.records[record.Base().ID] = record
}

// Hold makes the removal of a record wait until a copy of it is complete.
func (s *Store[T]) Hold(id string, done <-chan struct{}) {
	s.copies[id] = append(s.copies[id], done)
}

// Show answers with the record of the path.
func (s *Store[T]) Show(r *Request) (Answer, error) {
	record, err := s.Find(r.PathValue("id"))
	if err != nil {
		return Answer{}, err
	}
	return Answer{Content: map[string]any{s.Name: s.Describe(r, record)}}, nil
}

// List answers with the records that the query asks for, the newest first: limit records (all if it
// is zero) after the one with the ID marker, and after offset more.
func (s *Store[T]) List(r *Request) (Answer, error) {
	var found []T
	for _, record := range s.records {
		base := record.Base()
		if r.Matches("name", base.Name) && r.Matches("status", base.Status) &&
			(s.Keep == nil || s.Keep(r, record)) {
			found = append(found, record)
		}
	}
	slices.SortFunc(found, func(a, b T) int {
		one, other := a.Base(), b.Base()
		return cmp.Or(other.Created.Compare(one.Created), strings.Compare(other.ID, one.ID))
	})
	found, full, err := s.page(r, found)
	if err != nil {
		return Answer{}, err
	}
	describe := s.Describe
	if s.Summarize != nil {
		describe = s.Summarize
	}
	list := []any{}
	for _, record := range found {
		list = append(list, describe(r, record))
	}
	content := map[string]any{s.Name + "s": list}
	if full { // services do not check whether there are more
		query := r.URL.Query()
		query.Set("marker", found[len(found)-1].Base().ID)
		href := r.Endpoint + cmp.Or(s.NextPath, r.URL.Path) + "?" + query.Encode()
		content[s.Links] = []map[string]string{{"rel": "next", "href": href}}
	}
	return Answer{Content: content}, nil
}

// page returns the part of a list that the query asks for, and whether it has limit records.
func (s *Store[T]) page(r *Request, all []T) (page []T, full bool, err error) {
	limit, errLimit := r.integer("limit")
	offset, errOffset := r.integer("offset")
	if err := errors.Join(errLimit, errOffset); err != nil {
		return nil, false, err
	}
	if marker := r.URL.Query().Get("marker"); marker != "" {
		i := slices.IndexFunc(all, func(record T) bool { return record.Base().ID == marker })
		if i < 0 {
			return nil, false, s.missing(marker)
		}
		all = all[i+1:]
	}
	all = all[min(offset, len(all)):]
	if limit == 0 || limit > len(all) {
		return all, false, nil
	}
	return all[:limit], true, nil
}

// Delete begins to delete the record of the path.
func (s *Store[T]) Delete(r *Request) (Answer, error) {
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
	s.Worker.Start(outcome, func(context.Context) error { return s.Data.Remove(base.ID) },
		func(err error) {
			if err != nil {
				base.Set(ErrorDeleting)
				return
			}
			delete(s.records, base.ID)
		})
	return Answer{Status: http.StatusAccepted}, nil
}
