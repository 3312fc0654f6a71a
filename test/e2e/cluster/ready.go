package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/devcluster/view"
)

const (
	readyTimeout  = 10 * time.Minute
	readyInterval = 500 * time.Millisecond
)

// WaitUntilReady waits until all drivers have their StorageClasses. The error says what is missing.
func (c *Cluster) WaitUntilReady(ctx context.Context) error {
	source, err := view.NewSource(c.Environments()[0])
	if err != nil {
		return err
	}
	var shareTypes []string
	for _, t := range c.Cloud().ShareTypes() {
		if !t.Private {
			shareTypes = append(shareTypes, t.Name)
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { cancel(c.Wait(ctx)) }()
	var missing []string
	err = wait.PollUntilContextTimeout(ctx, readyInterval, readyTimeout, true,
		func(ctx context.Context) (bool, error) {
			now, err := source.Read(ctx, shareTypes)
			if err != nil {
				missing = []string{err.Error()}
				return false, nil //nolint:nilerr // the API server may be overloaded for a moment
			}
			missing = now.Missing
			return len(missing) == 0, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for the drivers: %w\n  %s",
			errors.Join(err, context.Cause(ctx)), strings.Join(missing, "\n  "))
	}
	return nil
}
