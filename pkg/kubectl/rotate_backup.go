package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the backup, beside those of the credentials.
const (
	// finishedKey exists if the last rotation has finished.
	finishedKey = "finished"
	// workloadsKey contains the workloads with the saved credentials, latestKey the workloads before
	// the last rotation.
	workloadsKey, latestKey = "workloads", "latest"
)

// saved returns the key of the backup for a key of a source.
func (r *rotation) saved(source *corev1.Secret, key string) string {
	if r.isRoot {
		return key
	}
	return source.Namespace + "." + source.Name + "." + key
}

func credentialKeys() []string { return []string{cloudsKey, confKey, caKey} }

// isFinished returns whether the last rotation has finished.
func (r *rotation) isFinished() bool { return len(r.backup.Data[finishedKey]) > 0 }

// returns says whether the file contains the saved credentials, and the last rotation did not
// finish. Then the rotation goes back.
func (r *rotation) returns() bool {
	if r.undo || r.backup == nil || r.isFinished() {
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
		return r.given
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

// write changes the sources, unless they have the credentials already.
func (r *rotation) write(ctx context.Context) error {
	var changed []*corev1.Secret
	for _, source := range r.sources {
		wanted := r.wanted(source)
		if r.undo && len(wanted[cloudsKey]) == 0 {
			return fmt.Errorf("Secret %s/%s contains no credentials for Secret %s/%s. %s", rootNamespace,
				backupSecret, source.Namespace, source.Name, nothingChanged)
		}
		for key, value := range wanted {
			if !bytes.Equal(value, source.Data[key]) {
				changed = append(changed, source)
				break
			}
		}
	}
	if len(changed) == 0 {
		fmt.Fprintln(r.Out, "The cluster contains these credentials already; continuing")
		return nil
	}
	if err := r.save(ctx); err != nil {
		return err
	}
	fmt.Fprintf(r.Out, "Changing %d Secrets; their previous content stays in Secret %s in %s\n",
		len(changed), backupSecret, rootNamespace)
	for _, source := range changed {
		wanted := r.wanted(source)
		if err := r.put(ctx, source, wanted); err != nil {
			return err
		}
		maps.Copy(source.Data, wanted)
	}
	return nil
}

// save stores the present credentials, the workloads with these credentials, and the workloads as
// they are now. It keeps the first two if the last rotation did not finish. To go back, it only
// marks the rotation as unfinished, until the drivers have the saved credentials again.
func (r *rotation) save(ctx context.Context) error {
	if r.undo {
		return r.put(ctx, r.backup, map[string][]byte{finishedKey: nil})
	}
	now, err := r.workloads(ctx)
	if err != nil {
		return err
	}
	data := map[string][]byte{workloadsKey: now, latestKey: now}
	for _, source := range r.sources {
		for _, key := range credentialKeys() {
			if value, found := source.Data[key]; found {
				data[r.saved(source, key)] = value
			}
		}
	}
	if r.backup == nil {
		r.backup = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: rootNamespace, Name: backupSecret}, Data: data,
		}
		if err := r.guest.Create(ctx, r.backup); err != nil {
			return fmt.Errorf("creating Secret %s/%s: %w", rootNamespace, backupSecret, err)
		}
		return nil
	}
	if !r.isFinished() {
		data = maps.Clone(r.backup.Data)
		data[latestKey] = now
	}
	r.backup.Data = data
	if err := r.guest.Update(ctx, r.backup); err != nil {
		return fmt.Errorf("changing Secret %s/%s: %w", rootNamespace, backupSecret, err)
	}
	return nil
}
