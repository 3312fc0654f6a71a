//go:build e2e

package promises

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	// records is the file with the records in the volume.
	records = pods.DataPath + "/records"
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
	// disconnect closes the output of the pod, and waits until nothing reads it.
	disconnect func()

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
	x.T.Helper()
	w := &writer{test: x, pod: pod}
	w.connect(corev1.PodLogOptions{Follow: true})
	x.T.Cleanup(func() { w.disconnect() })
	w.mustProgress()
	return w
}

// connect waits until the pod runs, and starts to read its output.
func (w *writer) connect(options corev1.PodLogOptions) {
	x := w.test
	x.T.Helper()
	var out io.ReadCloser
	x.Eventually("pod "+w.pod+" writes", func() error {
		found, err := x.Pods().Get(x.T.Context(), w.pod, metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch found.Status.Phase {
		case corev1.PodRunning:
		case corev1.PodFailed:
			x.T.Fatalf("pod %s failed; its output is %q", w.pod, x.Output(w.pod))
		default:
			return x.Describe(found)
		}
		w.uid = cmp.Or(w.uid, found.UID)
		out, err = x.Pods().GetLogs(w.pod, &options).Stream(x.T.Context())
		return err
	})
	var reading sync.WaitGroup
	w.mu.Lock()
	w.last, w.ended = 0, false
	w.mu.Unlock()
	reading.Go(func() { w.read(out) })
	w.disconnect = func() {
		_ = out.Close() // it ends the reader
		reading.Wait()
	}
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

// state returns the last record, whether the output has ended, and why it is unexpected.
func (w *writer) state() (int, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.ended, w.err
}

// mustProgress waits until the pod has written more records. It reads the output again if a restart
// of the kubelet or containerd has ended it. Lines may be lost then; the volume contains them.
func (w *writer) mustProgress() {
	w.test.T.Helper()
	var first int
	w.test.Eventually("more records of pod "+w.pod, func() error {
		last, ended, err := w.state()
		if err != nil {
			return err
		}
		if ended {
			w.disconnect()
			w.connect(corev1.PodLogOptions{Follow: true, TailLines: ptr.To[int64](1)})
			return fmt.Errorf("the output ended after record %d", last)
		}
		if first == 0 {
			first = last
		}
		if first == 0 || last < first+3 {
			return fmt.Errorf("the last record is %d", last)
		}
		return nil
	})
}

// mustBeUndisturbed checks that the pod still writes, was not restarted, and made no long pause.
func (w *writer) mustBeUndisturbed() {
	w.test.T.Helper()
	w.mustProgress()
	pod, err := w.test.Pods().Get(w.test.T.Context(), w.pod, metav1.GetOptions{})
	w.test.Must(err)
	if pod.UID != w.uid || pod.Status.ContainerStatuses[0].RestartCount > 0 {
		w.test.T.Errorf("pod %s was replaced or restarted: %v", w.pod, pod.Status.ContainerStatuses)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.test.T.Logf("pod %s wrote %d records, with a pause of at most %v", w.pod, w.last,
		w.pause.Round(time.Millisecond))
	assert.Check(w.test.T, w.pause <= longestPause, "pod %s wrote nothing for %v", w.pod, w.pause)
}

// mustContain checks that a file contains all records up to at least the last, each once and in
// order.
func mustContain(t *testing.T, content string, last int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")
	for i, line := range lines {
		assert.Assert(t, line == strconv.Itoa(i+1),
			"line %d of %d contains record %q: a record is lost or repeated", i+1, len(lines), line)
	}
	assert.Assert(t, len(lines) >= last,
		"the volume contains %d records, but the pods wrote %d", len(lines), last)
	t.Logf("the volume contains %d records, each once", len(lines))
}
