package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// answerLimit is more than any error has to say.
const answerLimit = 64 << 10

// Send gives an request to the cluster that wrote the file, and waits until it is
// carried out.
func Send(ctx context.Context, file string, o Request) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("no devcluster takes requests here: %w", err)
	}
	var a address
	if err := json.Unmarshal(content, &a); err != nil {
		return fmt.Errorf("decoding %q: %w", file, err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("encoding an request: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+requestsPath, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making an request: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("giving an request: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, answerLimit))
	if err != nil {
		return fmt.Errorf("reading the answer to an request: %w", err)
	}
	return errors.New(strings.TrimSpace(string(text)))
}
