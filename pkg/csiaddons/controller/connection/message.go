package connection

import (
	"strings"

	"google.golang.org/grpc/status"
)

// maxMessage limits a message that may contain text of a sidecar or a driver, in bytes. The API
// server refuses events with more than 1,024 bytes, and callers add words.
const maxMessage = 900

// Describe returns the text of an error of a call, for a status or an event.
func Describe(err error) string {
	message := err.Error()
	if found, ok := status.FromError(err); ok {
		message = found.Code().String() + ": " + found.Message()
	}
	if len(message) > maxMessage {
		message = message[:maxMessage] + "..."
	}
	return strings.ToValidUTF8(message, "?")
}
