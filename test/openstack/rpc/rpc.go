// Package rpc calls functions of another process over HTTP, with JSON. The control APIs of the
// OpenStack simulator and of the devcluster use it; both ends are always of the same version.
package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// requestLimit is the size of the largest request.
const requestLimit = 4 << 20

// None is the request or response of a function that takes or returns nothing.
type None struct{}

type failure struct {
	Error string `json:"error"`
}

// Handle serves a function under a name.
func Handle[In, Out any](
	mux *http.ServeMux, name string, call func(context.Context, In) (Out, error),
) {
	mux.HandleFunc("POST /"+name, func(w http.ResponseWriter, r *http.Request) {
		var in In
		decoder := json.NewDecoder(io.LimitReader(r.Body, requestLimit))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&in)
		var out any
		if err == nil {
			out, err = call(r.Context(), in)
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(http.StatusUnprocessableEntity)
			out = failure{Error: err.Error()}
		}
		_ = json.NewEncoder(w).Encode(out) // this fails only if the client is gone
	})
}

// Call calls the function of that name at a base URL. It returns the error of the function.
func Call[Out any](ctx context.Context, base, name string, in any) (Out, error) {
	var out Out
	body, err := json.Marshal(in)
	if err != nil {
		return out, fmt.Errorf("encoding the request %s: %w", name, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/"+name,
		bytes.NewReader(body))
	if err != nil {
		return out, fmt.Errorf("creating the request %s: %w", name, err)
	}
	request.Close = true // tests look for leaked connections
	// The client ignores proxies of the environment.
	response, err := (&http.Client{Transport: &http.Transport{}}).Do(request)
	if err != nil {
		return out, fmt.Errorf("sending the request %s: %w", name, err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode != http.StatusOK {
		refused := failure{Error: response.Status} // stays if another server responds
		_ = decoder.Decode(&refused)
		return out, errors.New(refused.Error)
	}
	if err := decoder.Decode(&out); err != nil {
		return out, fmt.Errorf("decoding the response to %s: %w", name, err)
	}
	return out, nil
}
