package simulator

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// Answer is the response of mode Foreign, in place of a response of OpenStack.
type Answer struct {
	// Status is 200 if zero.
	Status int
	// Header is added to the default header, which has the content type of JSON.
	Header map[string]string
	// Start is sent once, then Body, then End.
	Start string
	Body  string
	End   string
	// Size is how many bytes of Body are sent at least, by repeating it; once if zero, without end if
	// negative.
	Size int64
	// Gzip compresses what is sent.
	Gzip bool
	// Pause is made before each repetition.
	Pause time.Duration
}

// errEnough ends an answer that has no other end.
var errEnough = errors.New("the client or the simulator is gone")

// send writes the answer until it is complete, the client is gone, or closed is closed.
func (a Answer) send(ctx context.Context, closed <-chan struct{}, w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	var to io.Writer = w
	if a.Gzip {
		w.Header().Set("Content-Encoding", "gzip")
		packer := gzip.NewWriter(w)
		defer func() { _ = packer.Close() }() // the client is gone if this fails
		to = packer
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	if _, err := io.WriteString(to, a.Start); err != nil {
		return err
	}
	if err := a.repeat(ctx, closed, w, to); err != nil {
		return err
	}
	_, err := io.WriteString(to, a.End)
	return err
}

func (a Answer) repeat(
	ctx context.Context, closed <-chan struct{}, w http.ResponseWriter, to io.Writer,
) error {
	step := max(int64(len(a.Body)), 1)
	for sent := int64(0); a.Size < 0 || sent == 0 || sent < a.Size; sent += step {
		if a.Pause > 0 {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errEnough
		case <-closed:
			return errEnough
		case <-time.After(a.Pause):
		}
		if _, err := io.WriteString(to, a.Body); err != nil {
			return err
		}
	}
	return nil
}
