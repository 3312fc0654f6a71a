package kubectl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the backup, beside those of the credentials.
const (
	// finishedKey exists if the last rotation has finished.
	finishedKey = "finished"
	// workloadsKey contains the workloads with the saved credentials, latestKey the workloads before
	// the last rotation.
	workloadsKey, latestKey = "workloads", "latest"
	// replaced is the prefix of the keys with what an unfinished --undo replaces.
	replaced = "replaced."
)

// saved returns the key of the backup for a key of a source.
func (r *rotation) saved(source *corev1.Secret, key string) string {
	if r.isRoot {
		return key
	}
	return source.Namespace + "." + source.Name + "." + key
}

func credentialKeys() []string { return []string{cloudsKey, confKey, caKey} }

// isFinished returns whether the last rotation, if any, has finished.
func (r *rotation) isFinished() bool {
	return r.backup == nil || len(r.backup.Data[finishedKey]) > 0
}

// returns says whether the file contains the saved credentials, and the last rotation did not
// finish. Then the rotation goes back.
func (r *rotation) returns() bool {
	if r.undo || r.isFinished() {
		return false
	}
	for _, source := range r.sources {
		if !bytes.Equal(r.given[cloudsKey], r.backup.Data[r.saved(source, cloudsKey)]) {
			return false
		}
	}
	return true
}

// wanted returns the data that a source should have; a nil value is a key to remove.
func (r *rotation) wanted(source *corev1.Secret) map[string][]byte {
	if !r.undo {
		return maps.Clone(r.given)
	}
	data := map[string][]byte{}
	for _, key := range credentialKeys() {
		value, found := r.backup.Data[r.saved(source, key)]
		if _, exists := source.Data[key]; found || exists && !r.isRoot {
			data[key] = value
		}
	}
	return data
}

// change is what to merge into a Secret.
type change struct {
	*corev1.Secret

	data map[string][]byte
}

// findChanges finds and prints the changes, without values.
func (r *rotation) findChanges() error {
	verb := "Changing"
	if r.dryRun {
		verb = "Would change"
	}
	for _, source := range r.sources {
		data := r.wanted(source)
		if len(data[cloudsKey]) == 0 {
			return fmt.Errorf("Secret %s/%s contains no credentials for Secret %s/%s", rootNamespace,
				backupSecret, source.Namespace, source.Name)
		}
		maps.DeleteFunc(data, func(key string, value []byte) bool {
			return bytes.Equal(value, source.Data[key])
		})
		if len(data) > 0 {
			r.changes = append(r.changes, change{source, data})
			fmt.Fprintf(r.Out, "%s %s of Secret %s/%s\n", verb,
				strings.Join(slices.Sorted(maps.Keys(data)), ", "), source.Namespace, source.Name)
		}
	}
	if len(r.changes) == 0 {
		fmt.Fprintln(r.Out, "The cluster contains these credentials already")
	}
	return nil
}

func (r *rotation) write(ctx context.Context) error {
	if len(r.changes) == 0 {
		return nil
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "The previous content stays in Secret %s in %s\n", backupSecret, rootNamespace)
	for _, c := range r.changes {
		if err := r.put(ctx, c.Secret, c.data); err != nil {
			return err
		}
	}
	return nil
}

// save stores the present credentials, the workloads with these credentials, and the workloads as
// they are now. It keeps the first two if the last rotation did not finish, and until finish if it
// is to go back to them.
func (r *rotation) save(ctx context.Context) error {
	now, err := r.workloads(ctx)
	if err != nil {
		return err
	}
	finished := r.isFinished()
	data, prefix := map[string][]byte{}, ""
	if r.undo {
		prefix = replaced
	}
	if r.undo || !finished {
		data = maps.Clone(r.backup.Data)
		delete(data, finishedKey)
	}
	if !r.undo {
		maps.DeleteFunc(data, func(key string, _ []byte) bool { return strings.HasPrefix(key, replaced) })
	}
	_, kept := data[prefix+r.saved(r.sources[0], cloudsKey)]
	if !kept {
		if finished { // all workloads have these credentials
			data[prefix+workloadsKey] = now
		}
		for _, source := range r.sources {
			for _, key := range credentialKeys() {
				if value, found := source.Data[key]; found {
					data[prefix+r.saved(source, key)] = value
				}
			}
		}
	}
	data[latestKey] = now
	if r.backup == nil {
		r.backup = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: rootNamespace, Name: backupSecret}, Data: data,
		}
		err = r.guest.Create(ctx, r.backup)
	} else {
		r.backup.Data = data
		err = r.guest.Update(ctx, r.backup)
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", rootNamespace, backupSecret, err)
	}
	return nil
}

// finish marks the rotation as finished. What --undo replaced becomes what the next one restores.
func (r *rotation) finish(ctx context.Context) error {
	if r.backup == nil {
		return nil
	}
	data := map[string][]byte{}
	for key, value := range r.backup.Data {
		if original, ok := strings.CutPrefix(key, replaced); ok && r.undo {
			data[original] = value
		}
	}
	if len(data) > 0 {
		for key := range r.backup.Data {
			if _, ok := data[key]; !ok {
				data[key] = nil
			}
		}
	}
	data[finishedKey] = []byte("yes")
	return r.put(ctx, r.backup, data)
}

// put merges data. A nil value removes the key.
func (r *rotation) put(
	ctx context.Context, secret *corev1.Secret, data map[string][]byte,
) error {
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return errors.New("encoding the change of a Secret")
	}
	target := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name},
	}
	if err := r.guest.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("changing Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
