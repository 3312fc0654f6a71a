package storageclass

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openshift/library-go/pkg/operator/resource/resourcehelper"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/position"
)

// unsetDefaults removes the mark of a default from the operator's other classes that this sync has
// not reconciled (done): their type is gone or excluded, or the administrator renamed an additional
// class. It does nothing before the chosen default exists.
func (c *Controller) unsetDefaults(
	ctx context.Context, config *choice.Config, existing map[string]*storagev1.StorageClass,
	done map[string]bool,
) (failed []string) {
	if !config.OwnsDefault() || existing[config.DefaultClass] == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		class := existing[name]
		own := c.hasOwnName(class) || c.reconciled[name] && class.Provisioner == c.Provisioner
		if !own || done[name] || !choice.IsDefault(class) || name == config.DefaultClass {
			continue
		}
		required := class.DeepCopy()
		config.MarkDefault(required)
		desired := classes.Merge(class, required, true)
		_, err := c.kube.StorageV1().StorageClasses().Update(ctx, desired, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
			continue // the cache is older, and its next event triggers a sync
		}
		resourcehelper.ReportUpdateEvent(c.events, desired, err)
		if err != nil {
			failed = append(failed, fmt.Sprintf("StorageClass %s, which is not the default any more: %v",
				name, err))
		}
	}
	return failed
}

// Defaults returns what is wrong with the chosen default of the cluster, for a condition: it does
// not exist, or another StorageClass is a default, too.
func (c *Controller) Defaults() (remarks []string) {
	config, err := c.choices.Current()
	if err != nil || !config.OwnsDefault() {
		return nil
	}
	listed, err := c.classes.List(labels.Everything())
	if err != nil {
		return nil // a cache returns none
	}
	existing := classes.ByName(listed)
	names := slices.Sorted(maps.Keys(existing))
	if existing[config.DefaultClass] == nil {
		own := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return existing[name].Provisioner != c.Provisioner
		})
		advice := "correct or remove it"
		if len(own) > 0 {
			advice = "write one of " + strings.Join(own, ", ")
		}
		if similar := position.Similar(names, config.DefaultClass); similar != "" {
			advice = fmt.Sprintf("did you mean %q?", similar)
		}
		remarks = append(remarks, fmt.Sprintf("%s: %s%q: %s", c.Place, choice.AbsentDefault,
			config.DefaultClass, advice))
	}
	for _, name := range names {
		annotation := choice.DefaultAnnotation
		if existing[name].Annotations[annotation] != "true" {
			annotation = choice.BetaDefaultAnnotation
		}
		if name != config.DefaultClass && choice.IsDefault(existing[name]) {
			remarks = append(remarks, fmt.Sprintf("%s: defaultClass: StorageClass %s is a default, too, "+
				"and claims get the newest one: set its annotation %s to false", c.Place, name, annotation))
		}
	}
	return remarks
}
