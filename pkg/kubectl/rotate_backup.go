package kubectl

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Keys of the backup, beside those of the credentials.
const (
	// finishedKey exists if the last rotation has finished.
	finishedKey = "finished"
	// replaced is the prefix of the keys with what --undo replaced.
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

func (r *rotation) isFinished() bool {
	return !exists(r.backup) || len(r.backup.Data[finishedKey]) > 0
}

// returns says whether the file contains the saved credentials, and the last rotation did not
// finish. Then the rotation goes back.
func (r *rotation) returns() bool {
	if r.undo || r.isFinished() {
		return false
	}
	return !slices.ContainsFunc(r.sources, func(source *corev1.Secret) bool {
		return !bytes.Equal(r.given[cloudsKey], r.backup.Data[r.saved(source, cloudsKey)])
	})
}

func (r *rotation) wanted(source *corev1.Secret) map[string][]byte {
	data := maps.Clone(source.Data)
	if !r.undo {
		maps.Copy(data, r.given)
		return data
	}
	for _, key := range credentialKeys() {
		if value, found := r.backup.Data[r.saved(source, key)]; found {
			data[key] = value
		} else if !r.isRoot || key == cloudsKey {
			delete(data, key)
		}
	}
	return data
}

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
		keys := slices.DeleteFunc(credentialKeys(), func(key string) bool {
			return bytes.Equal(data[key], source.Data[key])
		})
		if len(keys) > 0 {
			r.changes = append(r.changes, change{source, data})
			fmt.Fprintf(r.Out, "%s %s of Secret %s/%s\n", verb, strings.Join(keys, ", "),
				source.Namespace, source.Name)
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

// save stores the present credentials, for --undo apart from those to which it goes back. What an
// unfinished rotation has saved stays: whoever repeats it saves no mixture.
func (r *rotation) save(ctx context.Context) error {
	data, prefix, finished := map[string][]byte{}, "", r.isFinished()
	if r.undo {
		prefix = replaced
	}
	if r.undo || !finished {
		maps.Copy(data, r.backup.Data)
	}
	maps.DeleteFunc(data, func(key string, _ []byte) bool {
		return key == finishedKey || strings.HasPrefix(key, replaced) && (finished || !r.undo)
	})
	_, kept := data[prefix+r.saved(r.sources[0], cloudsKey)]
	for _, source := range r.sources {
		for _, key := range credentialKeys() {
			if value, found := source.Data[key]; found && !kept {
				data[prefix+r.saved(source, key)] = value
			}
		}
	}
	return r.put(ctx, r.backup, data)
}

// finish marks the rotation as finished.
func (r *rotation) finish(ctx context.Context) error {
	if r.isFinished() {
		return nil
	}
	data := maps.Clone(r.backup.Data)
	data[finishedKey] = []byte("yes")
	return r.put(ctx, r.backup, data)
}

// secret returns an empty Secret if it does not exist. One that may not be read is an error.
func (r *rotation) secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err := r.guest.Get(ctx, client.ObjectKeyFromObject(found), found)
	if client.IgnoreNotFound(err) != nil {
		return found, fmt.Errorf("reading Secret %s/%s: %w", namespace, name, err)
	}
	return found, nil
}

func exists(secret *corev1.Secret) bool { return secret.ResourceVersion != "" }

// put writes the data of a Secret. It changes only what differs from the Secret as it was read.
func (r *rotation) put(
	ctx context.Context, secret *corev1.Secret, data map[string][]byte,
) error {
	before, verb := secret.DeepCopy(), "changing"
	secret.Data = data
	var err error
	if exists(secret) {
		err = r.guest.Patch(ctx, secret, client.MergeFrom(before))
	} else {
		verb, err = "creating", r.guest.Create(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("%s Secret %s/%s: %w", verb, secret.Namespace, secret.Name, err)
	}
	return nil
}
