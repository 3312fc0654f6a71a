package golden

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"gotest.tools/v3/assert"
)

// growth is by how much a figure may exceed the recorded one.
const growth = 1.1

// Figure fails a test or benchmark if a value exceeds the figure that a file records for it by more
// than a tenth and slack, the precision of the measurement. With the flag -update it first writes
// the value into the file, with three digits.
func Figure(tb testing.TB, file, name string, value, slack float64) {
	tb.Helper()
	recorded := map[string]map[string]float64{} // by test
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &recorded)
	}
	if err == nil && Update() {
		if recorded[tb.Name()] == nil {
			recorded[tb.Name()] = map[string]float64{}
		}
		recorded[tb.Name()][name], _ = strconv.ParseFloat(strconv.FormatFloat(value, 'g', 3, 64), 64)
		text, _ = json.MarshalIndent(recorded, "", "  ") // it fails only for other types
		err = os.WriteFile(file, append(text, '\n'), 0o600)
	}
	assert.NilError(tb, err)
	if before, ok := recorded[tb.Name()][name]; ok && value > before*growth+slack {
		tb.Errorf("%s is %.4g, more than a tenth above %.4g in %s", name, value, before, file)
	}
}
