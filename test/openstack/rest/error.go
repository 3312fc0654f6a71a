package rest

import (
	"cmp"
	"fmt"
	"net/http"
)

// Error is an error answer of Nova, Cinder or Manila.
type Error struct {
	Status  int
	Message string
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// BadRequest returns an error with status 400.
func BadRequest(format string, values ...any) error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, values...)}
}

// Forbidden returns an error with status 403.
func Forbidden(format string, values ...any) error {
	return &Error{Status: http.StatusForbidden, Message: fmt.Sprintf(format, values...)}
}

// NotFound returns an error with status 404, with the usual message if the format is empty.
func NotFound(format string, values ...any) error {
	format = cmp.Or(format, "The resource could not be found.")
	return &Error{Status: http.StatusNotFound, Message: fmt.Sprintf(format, values...)}
}

// write sends the error with the key that the three services use for its status.
func (e *Error) write(w http.ResponseWriter) {
	keys := map[int]string{
		http.StatusBadRequest: "badRequest", http.StatusForbidden: "forbidden",
		http.StatusNotFound: "itemNotFound",
	}
	content := map[string]any{"code": e.Status, "message": e.Message}
	writeJSON(w, e.Status, map[string]any{cmp.Or(keys[e.Status], "computeFault"): content})
}
