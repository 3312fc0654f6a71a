//go:build e2e

package promises

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/test/docs/guide"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
	"github.com/openstack-csi/csi-operator/test/node/images"
	"github.com/openstack-csi/csi-operator/test/stopwatch"
)

// chartsPage describes how to move from the charts of cloud-provider-openstack, and back.
const chartsPage = "from-charts.md"

// TestChartsMoveAndGoBack installs the charts of cloud-provider-openstack for both drivers, moves
// to ours, and goes back, as docs/from-charts.md says. All the time pods write to a volume and a
// share, which stay mounted. After each step old and new volumes grow, are copied and deleted.
func TestChartsMoveAndGoBack(t *testing.T) {
	x := use(t, kind{plain: true})
	r := x.withCharts(x.withHelm(x.publish(), "helm4"))
	before := x.traces()
	t.Run("installed", func(t *testing.T) {
		m := newMove(&test{&pods.Test{T: t, Cluster: x.Cluster}}, r)
		m.works()
		m.prepares()
		m.follows("Move")
		m.works()
		m.ours = m.newVolumes()
		m.follows("Go back")
		m.works()
		m.ours.mustHaveWritten()
		m.written.mustHaveWritten()
	})
	x.run("kubectl wait pv --all --for=delete --timeout=1m")
	x.Must(r.run(t.Context(), "kubectl openstack-csi uninstall"))
	x.run("kubectl get csidrivers cinder.csi.openstack.org nfs.manila.csi.openstack.org")
	x.Must(r.run(t.Context(), `
helm uninstall cinder-csi --namespace=kube-system
helm uninstall manila-csi --namespace=manila-csi
kubectl delete -f "$THEIRS/shares.yaml" -f "$THEIRS/csi-driver-nfs.yaml" --ignore-not-found
kubectl delete -f "$RELEASE/snapshots.yaml"
kubectl delete namespace openstack-csi manila-csi --ignore-not-found`))
	x.Eventually("nothing is left", func() error {
		if diff := cmp.Diff(before, x.traces()); diff != "" {
			return fmt.Errorf("objects and files (-before +left):\n%s", diff)
		}
		return nil
	})
}

// withCharts adds the charts of cloud-provider-openstack in the Go module cache, with files for the
// images and the cloud of the nodes.
func (x *test) withCharts(r published) published {
	x.T.Helper()
	download := exec.CommandContext(x.T.Context(), "go", "-C",
		filepath.Join(root, "test/node/images/programs"), "mod", "download", "-json",
		"k8s.io/cloud-provider-openstack")
	output, err := download.Output()
	x.Must(err)
	var module struct{ Dir string }
	x.Must(json.Unmarshal(output, &module))
	c := x.Cluster.Cloud().Credentials()
	values := map[string]string{
		"AUTH_URL": x.Cluster.Cloud().Info().AuthURL, "REGION": x.Cluster.Cloud().Info().Regions[0],
		"USER_NAME": c.UserName, "PASSWORD": c.Password, "PROJECT_NAME": c.ProjectName,
		"DOMAIN_NAME": c.DomainName,
	}
	all, err := images.List(root)
	x.Must(err)
	for _, image := range all {
		name, tag, _ := strings.Cut(path.Base(image.Name), ":")
		values[strings.ToUpper(strings.ReplaceAll(name, "-", "_"))] = tag
	}
	folder := x.T.TempDir()
	files, err := filepath.Glob("testdata/charts/*.yaml")
	x.Must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		x.Must(err)
		filled := os.Expand(string(text), func(name string) string { return values[name] })
		x.Must(os.WriteFile(filepath.Join(folder, filepath.Base(file)), []byte(filled), 0o600))
	}
	return r.with("CHARTS="+filepath.Join(module.Dir, "charts"), "THEIRS="+folder,
		"RELEASES=kube-system/cinder-csi manila-csi/manila-csi")
}

// move is a cluster that moves from the charts, and back.
type move struct {
	*test

	published published
	// step counts the installations.
	step int
	// written are pods that write since the charts were installed, ours since we came.
	written, ours writers
	// mounts are those of written.
	mounts []string
}

// source is a volume or a share with classes of the users.
type source struct {
	name, snapshots string
	class           pods.Class
}

func sources() []source {
	return []source{
		{"volume", "csi-cinder-snapclass", pods.Class{Name: "xfs", Mode: corev1.ReadWriteOnce}},
		{"share", "csi-manila-nfs", pods.Class{Name: "csi-manila-nfs", Mode: corev1.ReadWriteMany}},
	}
}

// newMove installs the charts, and starts pods that write.
func newMove(x *test, r published) *move {
	x.T.Helper()
	x.Must(r.run(x.T.Context(), `
kubectl apply -f "$RELEASE/snapshots.yaml"
kubectl wait crd --all --for=condition=Established --timeout=1m
helm install cinder-csi "$CHARTS/cinder-csi-plugin" --namespace=kube-system \
  --values="$THEIRS/cinder.yaml" --wait --timeout=5m
kubectl apply -f "$THEIRS/csi-driver-nfs.yaml"
kubectl rollout status daemonset/csi-nfs-node --namespace=kube-system --timeout=5m
helm install manila-csi "$CHARTS/manila-csi-plugin" --namespace=manila-csi --create-namespace \
  --values="$THEIRS/manila.yaml" --wait --timeout=5m
kubectl apply -f "$THEIRS/shares.yaml"`))
	x.runAfter("kubectl delete volumesnapshots,pvc --all --timeout=2m")
	m := &move{test: x, published: r}
	for _, of := range sources() {
		m.written = append(m.written, x.WriteInStatefulSet(of.name, of.class, ""))
	}
	m.written = append(m.written, m.volumeOfNFS())
	m.mounts = m.mounted()
	return m
}

// volumeOfNFS is a volume of csi-driver-nfs, which somebody has created for a share.
func (m *move) volumeOfNFS() *pods.Writer {
	m.T.Helper()
	m.Claim("exported", pods.ClaimSpec(sources()[1].class))
	cloud, err := url.Parse(m.Cluster.Cloud().Info().AuthURL)
	m.Must(err)
	m.runAfter("kubectl delete pv exported --timeout=2m")
	m.run(`kubectl wait pvc/exported --for=jsonpath='{.status.phase}'=Bound --timeout=3m
volume=$(kubectl get pvc exported --output=jsonpath='{.spec.volumeName}')
share=$(kubectl get pv $volume --output=jsonpath='{.spec.csi.volumeHandle}')
kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolume
metadata: {name: exported}
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 1Gi}
  claimRef: {namespace: default, name: nfs}
  csi:
    driver: nfs.csi.k8s.io
    volumeHandle: exported
    volumeAttributes: {server: "` + cloud.Hostname() + `", share: /shares/$share}
EOF`)
	return m.Write("nfs", pods.Class{Mode: corev1.ReadWriteMany})
}

// prepares follows the section before the move. Then our operators run, and do nothing.
func (m *move) prepares() {
	m.T.Helper()
	commands, err := guide.Commands(filepath.Join(docs, chartsPage), "Prepare")
	m.Must(err)
	for _, command := range commands {
		err := m.published.run(m.T.Context(), m.inFolder(command))
		if command == "kubectl openstack-csi check\n" {
			assert.ErrorContains(m.T, err, "cinder-csi")
			continue
		}
		m.Must(err)
	}
}

// inFolder changes the path of the file with values in a command.
func (m *move) inFolder(command string) string {
	return strings.ReplaceAll(command, "values.yaml", `"$THEIRS"/values.yaml`)
}

// newVolumes are volumes that our drivers create, with a class of theirs and one of ours.
func (m *move) newVolumes() writers {
	m.T.Helper()
	volume, share := m.Write("new-volume", sources()[0].class), m.Write("new-share", pods.Manila())
	m.growsAndCopies(volume.Claim, sources()[0].snapshots)
	m.growsAndCopies(share.Claim, "csi-manila-standard")
	return writers{volume, share}
}

// mounted returns the mounts of volumes on all nodes, with their IDs.
func (m *move) mounted() []string {
	m.T.Helper()
	return slices.DeleteFunc(m.traces(), func(trace string) bool {
		return !strings.Contains(trace, " mount ")
	})
}

// works checks that the pods write on, and that volumes of this step and of the one before do all
// that they should.
func (m *move) works() {
	m.T.Helper()
	append(m.written, m.ours...).mustBeUndisturbed()
	now := m.mounted()
	for _, mount := range m.mounts {
		assert.Check(m.T, slices.Contains(now, mount), "a volume was unmounted: %s", mount)
	}
	for _, of := range sources() {
		script := uses
		if m.step > 0 {
			script += copies
		}
		m.Must(m.published.with("NAME="+of.name, "CLASS="+of.class.Name, "MODE="+string(of.class.Mode),
			"SNAPSHOTS="+of.snapshots, fmt.Sprint("STEP=", m.step), fmt.Sprint("BEFORE=", m.step-1),
			fmt.Sprint("SIZE=", m.step+firstSize)).run(m.T.Context(), script))
	}
	m.step++
}

const (
	// firstSize is the size in GiB of the growing claims after the first step.
	firstSize = 2
	// uses grows the claim of the pod that writes, takes a snapshot of it, and creates another claim.
	uses = `
claim=data-$NAME-0
kubectl patch pvc $claim --type=merge \
  --patch="{\"spec\": {\"resources\": {\"requests\": {\"storage\": \"${SIZE}Gi\"}}}}"
kubectl wait pvc/$claim --for=jsonpath='{.status.capacity.storage}'=${SIZE}Gi --timeout=3m
kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $NAME-$STEP}
spec:
  accessModes: [$MODE]
  storageClassName: $CLASS
  resources: {requests: {storage: 1Gi}}
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: $NAME-$STEP}
spec: {volumeSnapshotClassName: $SNAPSHOTS, source: {persistentVolumeClaimName: $claim}}
EOF
kubectl wait pvc/$NAME-$STEP --for=jsonpath='{.status.phase}'=Bound --timeout=3m
kubectl wait volumesnapshot/$NAME-$STEP --for=jsonpath='{.status.readyToUse}'=true --timeout=3m
`
	// copies restores the snapshot of the step before, and deletes it with the claim of that step.
	copies = `
kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $NAME-restored}
spec:
  accessModes: [$MODE]
  storageClassName: $CLASS
  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $NAME-$BEFORE}
  resources: {requests: {storage: $((SIZE-1))Gi}}
EOF
kubectl wait pvc/$NAME-restored --for=jsonpath='{.status.phase}'=Bound --timeout=3m
volumes=$(kubectl get pvc $NAME-$BEFORE $NAME-restored \
  --output=jsonpath='{.items[*].spec.volumeName}')
content=$(kubectl get volumesnapshot $NAME-$BEFORE \
  --output=jsonpath='{.status.boundVolumeSnapshotContentName}')
kubectl delete pvc/$NAME-$BEFORE pvc/$NAME-restored volumesnapshot/$NAME-$BEFORE --timeout=3m
kubectl wait pv $volumes --for=delete --timeout=3m
kubectl wait volumesnapshotcontent $content --for=delete --timeout=3m
`
)

// follows runs the commands of a section, of which the first ends the drivers. It logs how long
// there is no provisioner, and no driver on a node.
func (m *move) follows(heading string) {
	m.T.Helper()
	commands, err := guide.Commands(filepath.Join(docs, chartsPage), heading)
	m.Must(err)
	const claim = `kubectl apply -f - <<EOF
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $NAME-waits}
spec:
  accessModes: [$MODE]
  storageClassName: $CLASS
  resources: {requests: {storage: 1Gi}}
EOF`
	watch := stopwatch.Start()
	absent := m.absences(func() {
		for i, command := range commands {
			m.Must(m.published.run(m.T.Context(), m.inFolder(command)))
			for _, of := range sources() {
				if i == 0 {
					m.Must(m.published.with("NAME="+of.name, "CLASS="+of.class.Name,
						"MODE="+string(of.class.Mode)).run(m.T.Context(), claim))
				}
			}
		}
		m.run(`for claim in volume-waits share-waits; do
kubectl wait pvc/$claim --for=jsonpath='{.status.phase}'=Bound --timeout=3m; done`)
	})
	claims := gap{m.lastVolume().Sub(watch.Began).Round(time.Second), watch.Took()}
	claims.counted = min(claims.all, claims.counted.Round(time.Second))
	m.run("kubectl delete pvc volume-waits share-waits --timeout=2m")
	m.T.Logf("%s: claims waited %v, nodes had no driver for %v", heading, claims, absent)
	assert.Check(m.T, claims.counted <= withoutProvisioner, "%s: claims waited %v", heading, claims)
	for node, gap := range absent {
		assert.Check(m.T, gap.counted <= withoutNodePlugin, "%s: %s had no driver for %v", heading, node,
			gap)
	}
}

// lastVolume returns when the newest PersistentVolume was created.
func (m *move) lastVolume() (last time.Time) {
	m.T.Helper()
	volumes, err := m.Cluster.Client.CoreV1().PersistentVolumes().List(m.T.Context(),
		metav1.ListOptions{})
	m.Must(err)
	for _, v := range volumes.Items {
		if v.CreationTimestamp.After(last) {
			last = v.CreationTimestamp.Time
		}
	}
	return last
}

const (
	// withoutProvisioner and withoutNodePlugin are the longest times of a step without them.
	withoutProvisioner, withoutNodePlugin = time.Minute, 30 * time.Second
	absenceInterval                       = 100 * time.Millisecond
)

// gap is how long something is missing, and the part of it that counts on a busy machine.
type gap struct{ all, counted time.Duration }

func (g gap) String() string { return fmt.Sprintf("%v (%v counts)", g.all, g.counted) }

// absences returns how long each driver is not registered on each node during the work.
func (m *move) absences(work func()) map[string]gap {
	m.T.Helper()
	ctx, stop := context.WithCancel(m.T.Context())
	defer stop()
	found := make(chan map[string]gap)
	go func() {
		since, longest := map[string]stopwatch.Stopwatch{}, map[string]gap{}
		_ = wait.PollUntilContextCancel(ctx, absenceInterval, true, func(context.Context) (bool, error) {
			nodes, err := m.Cluster.Client.StorageV1().CSINodes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, nil //nolint:nilerr // the last one, when work has ended
			}
			for _, node := range nodes.Items {
				for _, driver := range []string{"cinder.csi.openstack.org", "nfs.manila.csi.openstack.org"} {
					is := func(d storagev1.CSINodeDriver) bool { return d.Name == driver }
					key := node.Name + " " + driver
					if slices.ContainsFunc(node.Spec.Drivers, is) {
						delete(since, key)
						continue
					}
					watch, absent := since[key]
					if !absent {
						watch = stopwatch.Start()
						since[key] = watch
					}
					if all := time.Since(watch.Began); all > longest[key].all {
						longest[key] = gap{all.Round(absenceInterval), watch.Took().Round(absenceInterval)}
					}
				}
			}
			return false, nil
		})
		found <- longest
	}()
	work()
	stop()
	return <-found
}
