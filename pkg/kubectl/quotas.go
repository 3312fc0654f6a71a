package kubectl

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/driver/source"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/kubectl/meaning"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// quotas says what is left of the quotas of a driver's service, the least first, with a warning
// about what is nearly full; for Manila also of those of the user and of share types. It also
// returns how much of its quotas the project uses.
func (c *cloud) quotas(
	ctx context.Context, d driver, types ...string,
) (links []Link, used map[string]int) {
	const nearly, percent = 90, 100
	var full, left []string
	limits, rest := map[string]int{}, map[string]float64{}
	used = map[string]int{}
	add := func(of string, found []openstack.Quota, err error) {
		if err != nil {
			links = append(links, linkf(NotVisible, "%v", err))
		}
		for _, q := range found {
			limit, known := limits[q.Resource]
			isProjects := of != "" && known && limit == q.Limit // which is the default
			ofType := strings.Contains(strings.TrimPrefix(q.Resource, "snapshot_"), "_")
			text := fmt.Sprintf("%s%s: %d of %d left", q.Resource, of, max(0, q.Limit-q.Used), q.Limit)
			switch {
			case isProjects, ofType && q.Used == 0: // also the limit of each volume
			case q.Limit == 0:
				text = q.Resource + of + ": none allowed"
				left = append(left, text)
			case q.Used*percent >= q.Limit*nearly:
				full = append(full, text)
			default:
				left = append(left, text)
			}
			if rest[text] = float64(q.Limit-q.Used) / float64(max(1, q.Limit)); of == "" {
				limits[q.Resource], used[q.Resource] = q.Limit, q.Used
			}
		}
	}
	if d.kind == choice.Cinder {
		found, err := c.client.VolumeQuotas(ctx)
		add("", found, err)
	} else {
		found, err := c.client.ShareQuotas(ctx)
		add("", found, err)
		found, err = c.client.ShareUserQuotas(ctx)
		add(" of the user", found, err)
		for _, name := range types {
			if name != "" {
				found, err = c.client.ShareTypeQuotas(ctx, name)
				add(" of type "+name, found, err)
			}
		}
	}
	for _, all := range [][]string{full, left} {
		slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(rest[a], rest[b]) })
	}
	if len(full) > 0 {
		are := "nearly full"
		if rest[full[0]] <= 0 {
			are = "full, or nearly"
		}
		links = append(links, linkf(Warning, "quotas of %s in the OpenStack project that are %s: %s",
			d.title, are, diagnosis.List(full)))
	}
	if len(left) > 0 {
		links = append(links, linkf(OK, "quotas of %s: %s", d.title, diagnosis.List(left)))
	}
	return links, used
}

// quotaLinks says what is left of the quotas of the listed volumes, and who fills them.
func (v *volumeList) quotaLinks(
	ctx context.Context, l *Volumes, in *contents, facts *volumeFacts,
) (all []Link) {
	for _, d := range facts.guest.drivers() {
		if in.of[d.name] == nil {
			continue
		}
		types := map[string]bool{}
		for _, one := range l.Volumes {
			if one.Driver == d.name {
				types[facts.types[one.Class]] = true
			}
		}
		links, used := v.quotas(ctx, d, slices.Sorted(maps.Keys(types))...)
		all = slices.Concat(all, links, facts.fillLinks(ctx, d, in, used, gigabytes))
	}
	return all
}

// quotaLinks says what is left for a claim that a quota stops, and who fills the quota.
func (f *claimFacts) quotaLinks(ctx context.Context, chain []Link) []Link {
	i := slices.IndexFunc(chain, func(l Link) bool {
		return l.topic == meaning.Quota && l.State == Problem
	})
	if f.sys == nil || i < 0 {
		return nil
	}
	full := cmp.Or(chain[i].quota, gigabytes)
	if f.cloud.clouds == "" {
		return append(f.fillLinks(ctx, f.sys.of, nil, nil, full), linkf(NotVisible, "what OpenStack has "+
			"left, and what others in its project use: run this command with --clouds clouds.yaml"))
	}
	if refused := f.reach(ctx); refused != nil {
		return refused
	}
	if _, err := f.cloud.types(ctx, f.sys.of.kind); err != nil { // it finds the service
		return []Link{also(failure(err))}
	}
	want, has := f.claim.Spec.Resources.Requests.Storage(), f.claim.Status.Capacity.Storage()
	links, used := f.cloud.quotas(ctx, f.sys.of,
		ptr.Deref(f.class, storagev1.StorageClass{}).Parameters["type"])
	asked := linkf(OK, "the claim asks %s for %d GiB more", f.sys.of.title,
		gibibytes(want)-gibibytes(has))
	return slices.Concat([]Link{asked}, links, f.fillLinks(ctx, f.sys.of, nil, used, full))
}

// portions are what a driver stores in OpenStack, in GiB or by number, by who uses it.
type portions struct {
	byNumber bool
	sizes    map[string]int
	// free are those that no claim has.
	free map[string]bool
	// The command is about the largest part; about what no claim has, if there is such.
	largest int
	unused  bool
	command string
}

func (p *portions) add(who string, size int, unused bool, command string, args ...any) {
	if p.byNumber {
		size = 1
	}
	p.sizes[who] += size
	p.free[who] = unused
	if p.command == "" || unused && !p.unused || unused == p.unused && size > p.largest {
		p.largest, p.unused, p.command = size, unused, fmt.Sprintf(command, args...)
	}
}

func (p *portions) addVolume(v *corev1.PersistentVolume) {
	size, keeps := gibibytes(v.Spec.Capacity.Storage()), corev1.PersistentVolumeReclaimRetain
	switch {
	case v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == keeps:
		p.add("released volumes", size, true, "kubectl patch pv %s -p "+
			`'{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}'`, v.Name)
	case v.Spec.ClaimRef == nil || v.Status.Phase == corev1.VolumeReleased ||
		v.Status.Phase == corev1.VolumeFailed:
		p.add("volumes without a claim", size, true, "kubectl openstack-csi why pv/%s", v.Name)
	default:
		ns := v.Spec.ClaimRef.Namespace
		p.add("namespace "+ns, size, false, "kubectl openstack-csi volumes -n %s", ns)
	}
}

func gibibytes(q *resource.Quantity) int {
	const gibibyte = 1 << 30
	return int((q.Value() + gibibyte - 1) / gibibyte)
}

// gigabytes is the quota of the sizes of all volumes, with snapshots, or of all shares.
const gigabytes = "gigabytes"

// fillLinks says who fills a quota of a driver, in GiB or by number, and which command frees most.
func (s *session) fillLinks(
	ctx context.Context, d driver, in *contents, used map[string]int, quota string,
) []Link {
	counts, kind, _ := strings.Cut(quota, "_") // of a volume type
	if !slices.Contains([]string{gigabytes, "volumes", "snapshots", "shares"}, counts) {
		counts, kind = gigabytes, ""
	}
	all := s.portions(ctx, d, in, counts, kind)
	if all.command == "" {
		return nil
	}
	text := d.title + " stores"
	if kind != "" {
		text += " of type " + kind
	}
	others := used[strings.TrimSuffix(counts+"_"+kind, "_")]
	for _, size := range all.sizes {
		others -= size
	}
	if others > 0 {
		all.sizes["others in the project"] = others
	}
	unit, frees := "in GiB", "most"
	if all.byNumber {
		unit, frees = "by number", "one"
	}
	l := linkf(OK, "%s, %s: %s", text, unit, all)
	if all.unused {
		return []Link{l.then("If nobody needs its data, this frees %s: %s", frees, all.command)}
	}
	return []Link{l.then("The largest volume is listed by: %s", all.command)}
}

// portions returns what a quota counts: gigabytes, volumes, snapshots or shares, of a volume type
// or of all, "".
func (s *session) portions(
	ctx context.Context, d driver, in *contents, counts, kind string,
) *portions {
	all := &portions{sizes: map[string]int{}, free: map[string]bool{}, byNumber: counts != gigabytes}
	types, known := map[string]string{}, map[string]string{}
	for _, class := range list[storagev1.StorageClassList](ctx, s.guest).Items {
		types[class.Name] = class.Parameters["type"]
	}
	isCounted := func(id, what string) bool {
		return (kind == "" || known[id] == kind) && (counts == gigabytes || counts == what)
	}
	_, thing := d.service() // snapshots of shares have a quota of their own
	visit(ctx, s.guest, &corev1.PersistentVolumeList{}, func(v *corev1.PersistentVolume) {
		if served := source.Of(v); served != nil && served.Driver == d.name {
			known[served.VolumeHandle] = types[v.Spec.StorageClassName]
			if isCounted(served.VolumeHandle, thing+"s") {
				all.addVolume(v)
			}
		}
	})
	if d.kind == choice.Cinder {
		contents := &snapshotv1.VolumeSnapshotContentList{}
		visit(ctx, s.guest, contents, func(c *snapshotv1.VolumeSnapshotContent) {
			if of := c.Spec.VolumeSnapshotRef; c.Spec.Driver == d.name && c.Status != nil &&
				isCounted(ptr.Deref(c.Spec.Source.VolumeHandle, ""), "snapshots") {
				size := resource.NewQuantity(ptr.Deref(c.Status.RestoreSize, 0), resource.BinarySI)
				all.add("snapshots", gibibytes(size), true, "kubectl delete volumesnapshot %s -n %s", of.Name,
					of.Namespace)
			}
		})
	}
	for id, one := range ptr.Deref(in, contents{}).of[d.name] {
		if _, has := known[id]; one.ours && !has && isCounted(id, thing+"s") {
			all.add("orphans", one.gibibytes, true, "openstack %s delete %s", thing, id)
		}
	}
	return all
}

// String lists the portions, the largest first. It leaves out only small ones of claims.
func (p *portions) String() string {
	const most = 3
	names := slices.Sorted(maps.Keys(p.sizes))
	slices.SortStableFunc(names, func(a, b string) int { return p.sizes[b] - p.sizes[a] })
	var shown []string
	for i, name := range names {
		if i < most || p.free[name] {
			shown = append(shown, fmt.Sprintf("%s %d", name, p.sizes[name]))
		}
	}
	text := strings.Join(shown, ", ")
	if more := len(names) - len(shown); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
