//go:build e2e

package promises

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// dataPath is the folder of the volume in a pod, records the file with the records in it.
	dataPath = "/data"
	records  = dataPath + "/records"
	// longestPause is the longest time between two records without a defect, on a busy machine.
	longestPause = time.Minute
)

// writeRecords appends numbered records to the file, one per line, and synchronizes each with the
// storage before it prints the number. It continues after the last record of the file. A failed
// write ends it.
const writeRecords = `set -eu
trap 'exit 0' TERM
touch ` + records + `
last=$(tail -n 1 ` + records + `)
number=$((${last:-0} + 1))
while :; do
  echo "$number" | dd of=` + records + ` oflag=append conv=notrunc,fsync status=none
  echo "$number"
  number=$((number + 1))
  sleep 0.1
done
`

// writer is a pod that appends records to a volume.
type writer struct {
	test *test
	pod  string
	uid  types.UID

	mu sync.Mutex
	// last is the last record that the pod has reported, at is when. pause is the longest time
	// between two records.
	last  int
	at    time.Time
	pause time.Duration
	// err says why the output of the pod is unexpected, ended that the output has ended.
	err   error
	ended bool
}

// follow waits until the pod reports records, and then reads its output until the pod ends.
func (x *test) follow(pod string) *writer {
	x.t.Helper()
	w := &writer{test: x, pod: pod}
	var out io.ReadCloser
	x.eventually("pod "+pod+" writes", func() error {
		found, err := x.pods().Get(x.t.Context(), pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch found.Status.Phase {
		case corev1.PodRunning:
		case corev1.PodFailed:
			x.t.Fatalf("pod %s failed; its output is %q", pod, x.output(pod))
		default:
			return x.describe(found)
		}
		w.uid = found.UID
		out, err = x.pods().GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(x.t.Context())
		return err
	})
	go w.read(out)
	x.t.Cleanup(func() { _ = out.Close() }) // it ends the reader
	w.mustProgress()
	return w
}

// read parses the output of the pod.
func (w *writer) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		number, err := strconv.Atoi(lines.Text())
		w.mu.Lock()
		switch {
		case err != nil:
			w.err = errors.Join(w.err, fmt.Errorf("pod %s printed %q", w.pod, lines.Text()))
		case w.last != 0 && number != w.last+1:
			w.err = errors.Join(w.err, fmt.Errorf("pod %s wrote %d after %d", w.pod, number, w.last))
		}
		now := time.Now()
		if !w.at.IsZero() {
			w.pause = max(w.pause, now.Sub(w.at))
		}
		w.last, w.at = number, now
		w.mu.Unlock()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
}

// state returns the last record, and an error if the pod does not write.
func (w *writer) state() (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended && w.err == nil {
		return w.last, fmt.Errorf("the output of pod %s ended after record %d", w.pod, w.last)
	}
	return w.last, w.err
}

// mustProgress waits until the pod has written more records.
func (w *writer) mustProgress() {
	w.test.t.Helper()
	first, err := w.state()
	w.test.must(err)
	w.test.eventually("more records of pod "+w.pod, func() error {
		last, err := w.state()
		if err == nil && last < first+3 {
			err = fmt.Errorf("the last record is %d", last)
		}
		return err
	})
}

// mustBeUndisturbed checks that the pod still writes, was not restarted, and made no long pause.
func (w *writer) mustBeUndisturbed() {
	w.test.t.Helper()
	w.mustProgress()
	pod, err := w.test.pods().Get(w.test.t.Context(), w.pod, metav1.GetOptions{})
	w.test.must(err)
	if pod.UID != w.uid || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		w.test.t.Errorf("pod %s was replaced or restarted: %v", w.pod, pod.Status.ContainerStatuses)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.test.t.Logf("pod %s wrote %d records, with a pause of at most %v", w.pod, w.last,
		w.pause.Round(time.Millisecond))
	if w.pause > longestPause {
		w.test.t.Errorf("pod %s wrote nothing for %v", w.pod, w.pause)
	}
}

// mustContain checks that a file contains all records up to at least the last, each once and in
// order.
func mustContain(t *testing.T, content string, last int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	for i, line := range lines {
		if line != strconv.Itoa(i+1) {
			t.Fatalf("line %d of %d contains record %q: a record is lost or repeated",
				i+1, len(lines), line)
		}
	}
	if len(lines) < last {
		t.Fatalf("the volume contains %d records, but the pods wrote %d", len(lines), last)
	}
	t.Logf("the volume contains %d records, each once", len(lines))
}
