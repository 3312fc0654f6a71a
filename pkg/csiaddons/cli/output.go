package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// The formats of the answer.
const (
	tableOutput = "table"
	jsonOutput  = "json"
)

// print writes the answer of the driver. It fails if the driver answers that it is not ready.
func (o *options) print(out io.Writer, answer proto.Message) error {
	encoded, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encoding the answer of the driver: %w", err)
	}
	var content map[string]any
	if err := json.Unmarshal(encoded, &content); err != nil {
		return fmt.Errorf("decoding the answer of the driver: %w", err)
	}
	if ready, ok := content["ready"].(bool); ok && !ready && o.operation == "Probe" {
		return status.Error(codes.FailedPrecondition, "the driver is not ready")
	}
	if o.output == jsonOutput {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(content)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "FIELD\tVALUE")
	writeRows(table, "", content)
	return table.Flush()
}

// writeRows writes a row for each value that contains no others. The field is its path.
func writeRows(table io.Writer, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			writeRows(table, strings.TrimPrefix(path+"."+key, "."), value[key])
		}
	case []any:
		for i, item := range value {
			writeRows(table, path+"["+strconv.Itoa(i)+"]", item)
		}
	default:
		fmt.Fprintf(table, "%s\t%s\n", printable(path), printable(fmt.Sprint(value)))
	}
}

// printable replaces characters that could control a terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
