package driver

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// maxText is the maximum length of an error message of a driver in bytes. The controller copies
// messages into objects.
const maxText = 1 << 10

// cleanErrors is a gRPC interceptor of the client. It limits the messages of errors, and removes
// characters that are not printable.
//
//nolint:revive // gRPC defines the arguments
func cleanErrors(ctx context.Context, method string, request, response any,
	connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	err := invoke(ctx, method, request, response, connection, options...)
	if err == nil {
		return nil
	}
	cleaned := status.Convert(err).Proto()
	cleaned.Message = clean(cleaned.GetMessage())
	return status.ErrorProto(cleaned)
}

// clean returns the text with spaces in place of characters that are not printable, cut to maxText.
func clean(text string) string {
	const end = "..."
	cut := len(text) > maxText
	if cut {
		text = text[:maxText-len(end)]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if cut {
		text += end
	}
	return text
}
