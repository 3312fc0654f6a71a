package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// withChoices returns the operator with the choices of the administrator that it uses only when it
// starts. Environment variables have precedence. Invalid choices change nothing.
func (o *operator) withChoices(ctx context.Context, config *rest.Config) (*operator, error) {
	if o.drivers[0].UserConfigMap == "" {
		return o, nil
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating client: %w", err)
	}
	return o.withChoicesFrom(ctx, kube)
}

func (o *operator) withChoicesFrom(
	ctx context.Context, kube kubernetes.Interface,
) (*operator, error) {
	chosen, err := o.readChoices(ctx, kube)
	if err != nil || chosen == (settings.Chosen{}) {
		return o, err
	}
	changed, err := newOperator(o.name, o.drivers, o.flags, chosen.After(o.lookup))
	if err != nil {
		return nil, err
	}
	changed.chosen = chosen
	return changed, nil
}

// readChoices reads the choices. It lists them, because RBAC allows only list and watch. The API
// server takes up to 100 ms for the newest ones. Old ones suffice: restartOnChoice sees newer ones.
func (o *operator) readChoices(
	ctx context.Context, kube kubernetes.Interface,
) (settings.Chosen, error) {
	name := o.drivers[0].UserConfigMap
	list, err := kube.CoreV1().ConfigMaps(o.namespaces.UserConfig).List(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector(metav1.ObjectNameField, name).String(),
		ResourceVersion: "0",
	})
	if err != nil {
		return settings.Chosen{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	for _, configMap := range list.Items {
		if text, found := configMap.Data[choice.Key]; found && configMap.Name == name {
			// A condition reports the faults.
			config, _ := choice.Parse(o.drivers[0].ChoiceKind, text, o.settings.ClusterID == "")
			return chosenAtStart(config), nil
		}
	}
	return settings.Chosen{}, nil
}

// chosenAtStart returns the choices that an operator uses only when it starts.
func chosenAtStart(config *choice.Config) settings.Chosen {
	if config == nil {
		return settings.Chosen{}
	}
	addons := ptr.Deref(config.CSIAddons, choice.CSIAddons{})
	return settings.Chosen{
		ReleaseLeases: config.Sidecars.ReleaseLeases, APIServerTokens: addons.APIServerTokens,
		CSIAddonsImage: addons.Image, MaxAccessRules: addons.MaxAccessRules,
	}
}

// restartOnChoice returns the controller that ends the process when other choices apply than those
// with which it has started.
func (d *driver) restartOnChoice(name string) (factory.Controller, error) {
	choices := d.components.Choices
	if choices == nil {
		return nil, nil
	}
	sync := func(ctx context.Context, _ factory.SyncContext) error {
		config, err := choices.Current()
		if err == nil && chosenAtStart(config) != d.chosen {
			klog.FromContext(ctx).Info("Restarting because of a choice of the administrator",
				"source", choices.Name)
			d.restart()
		}
		return nil
	}
	return factory.New().WithInformers(choices.Informer).WithSync(sync).
		ToController(name, d.events), nil
}
