// Command kstatus reads objects in JSON, and prints for each what the library kstatus says about it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	objects := json.NewDecoder(os.Stdin)
	for {
		var object unstructured.Unstructured
		err := objects.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		result, err := status.Compute(&object)
		if err != nil {
			return err
		}
		fmt.Println(result.Status)
	}
}
