//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	manilaUserConfig  = "manila-csi-config"
	manilaConfigValid = "ManilaUserConfigValid"
)

// choose writes choices for Manila into the ConfigMap.
func (e *env) choose(text string) {
	e.t.Helper()
	text = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: ManilaConfig\n" + text
	e.must(e.management.putConfigMap(e.ctx(), e.userConfigNamespace(), manilaUserConfig,
		map[string]string{"operator.yaml": text}))
}

// TestChoicesOfStorageClasses begins with invalid choices: the operator installs nothing.
func TestChoicesOfStorageClasses(t *testing.T) {
	t.Parallel()
	e := newEnv(t, options{
		Types:  []string{"default", "gold", "gold-test"},
		Cloud:  simulator.Config{ShareTypes: []simulator.ShareType{{Name: "net", ShareServers: true}}},
		Before: func(e *env) { e.choose("types: {includes: [gold]}\nclass: {reclaimPolicy: Keep}\n") },
	})
	p := e.operator
	e.parts(
		part{"InvalidAtStart", e.invalidChoicesAtStart},
		part{"Valid", e.validChoices},
		part{"LastValid", e.lastValidChoices},
		part{"NoDriver", e.choiceOfNoDriver},
		part{"None", e.noChoices},
	)
	e.mustStillRun(p)
}

func (e *env) invalidChoicesAtStart() {
	at := "key operator.yaml of ConfigMap " + e.userConfigNamespace() + "/" + manilaUserConfig
	e.eventually(installed, func() error {
		return errors.Join(
			e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "Invalid",
				at+`, line 3: unknown field "types.includes": did you mean "include"?`,
				at+`, line 4: class.reclaimPolicy: Unsupported value: "Keep"`,
				"The operator changes no StorageClass and no workload"),
			e.reports("OpenStackManilaDriverControllerServiceControllerDegraded", at),
			e.reports("OpenStackManilaDriverNodeServiceControllerDegraded", at))
	})
	e.must(e.hasClasses())
	if _, err := e.deployment(); err == nil {
		e.t.Error("the operator created the Deployment")
	}
}

func (e *env) validChoices() {
	e.choose(`
types: {include: [gold*, silver, net], exclude: ['*-test']}
defaultClass: nodes
pods: {node: {tolerations: [{key: example.com/storage, operator: Exists}]}}
class: {reclaimPolicy: Retain}
classes:
- {type: default, name: nodes, reclaimPolicy: Delete, shareClients: [10.0.0.0/16]}
`)
	e.eventually(installed, func() error {
		return errors.Join(e.hasClasses("csi-manila-gold", "nodes"),
			e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "PartlyIgnored",
				`types.include[1]: "silver" matches no share type`),
			e.hasCondition("ManilaShareTypesServed", opv1.ConditionFalse, "PartlyServed",
				`share type "net" needs a share network`))
	})
	e.awaitAvailable()
	classes, err := e.classes()
	e.must(err)
	gold, nodes := classes["csi-manila-gold"], classes["nodes"]
	e.must(checkEqual("Retain false, Delete true 10.0.0.0/16", fmt.Sprintf("%s %s, %s %s %s",
		*gold.ReclaimPolicy, gold.Annotations[defaultAnnotation],
		*nodes.ReclaimPolicy, nodes.Annotations[defaultAnnotation], nodes.Parameters["nfs-shareClient"])))
	chosen := []corev1.Toleration{{Key: "example.com/storage", Operator: corev1.TolerationOpExists}}
	for name, w := range e.workloads() {
		e.must(checkEqual(name != controllerName, slices.Equal(chosen, w.Pod.Tolerations)))
	}
	e.awaitNoWrites()
	e.expectNoWritesDuring(2)
}

func (e *env) lastValidChoices() {
	e.choose("kubeletDir: /var/lib/k0s/kubelet\n")
	e.eventually(prompt, func() error {
		return e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "Invalid",
			"line 3: kubeletDir: Forbidden: remove the field: the folder is fixed on OpenShift",
			"the last valid configuration applies")
	})
	e.addType("silver")
	e.eventually(soon, func() error {
		return e.hasClasses("csi-manila-gold", "csi-manila-silver", "nodes")
	})
	e.awaitAvailable()
}

// choiceOfNoDriver checks that a driver that the operator has installed stays.
func (e *env) choiceOfNoDriver() {
	e.choose("driver: Never\n")
	e.eventually(soon, func() error { return e.reports(disabled, "driver: Never") })
	_, err := e.deployment()
	e.must(err)
}

// noChoices checks that each share type has its class again, also one that needs a share network.
func (e *env) noChoices() {
	e.must(e.management.putConfigMap(e.ctx(), e.userConfigNamespace(), manilaUserConfig, nil))
	e.eventually(prompt, func() error {
		return errors.Join(e.hasClasses("csi-manila-default", "csi-manila-gold", "csi-manila-gold-test",
			"csi-manila-net", "csi-manila-silver", "nodes"),
			e.hasCondition(manilaConfigValid, opv1.ConditionTrue, "AsExpected"),
			e.hasCondition("ManilaShareTypesServed", opv1.ConditionFalse, "PartlyServed",
				`share type "net" needs a share network`))
	})
}

// choiceOfClass checks that the operator replaces the class, but not for an invalid choice.
func (e *cinderEnv) choiceOfClass() {
	e.awaitAvailable()
	const header = "apiVersion: config.csi.openstack.org/v1alpha1\nkind: CinderConfig\n"
	has := func(policy, byDefault string) func() error {
		return func() error {
			classes, err := e.classes()
			if err != nil {
				return err
			}
			class := classes[standardClass] // missing while the operator recreates it
			return checkEqual(policy+" "+byDefault, fmt.Sprintf("%s %s",
				ptr.Deref(class.ReclaimPolicy, "missing"), class.Annotations[defaultAnnotation]))
		}
	}
	e.eventually(soon, has("Delete", "true"))
	e.putUserConfig(map[string]string{
		"operator.yaml": header + "defaultClass: other\nclass: {reclaimPolicy: Retain}\n",
	})
	e.eventually(prompt, has("Retain", "false"))
	e.putUserConfig(map[string]string{"operator.yaml": header + "driver: Never\n"})
	e.eventually(prompt, func() error {
		return e.hasCondition(cinderConfigValid, opv1.ConditionFalse, "Invalid",
			`line 3: unknown field "driver"`)
	})
	e.must(has("Retain", "false")())
	e.putUserConfig(nil)
	e.eventually(prompt, has("Delete", "false"))
	e.awaitAvailable()
}

// defaultVolumeClass is the StorageClass of the volume type __DEFAULT__, which is no valid name.
const defaultVolumeClass = "csi-cinder-default-76272578"

// choiceOfVolumeTypes checks that the operator lists the volume types, and that it has the
// permissions for their StorageClasses.
func (e *cinderEnv) choiceOfVolumeTypes() {
	e.putUserConfig(map[string]string{"operator.yaml": `
apiVersion: config.csi.openstack.org/v1alpha1
kind: CinderConfig
types: {include: [__DEF*, 'gold*']}
defaultClass: archive
classes: [{type: __DEFAULT__, name: archive, reclaimPolicy: Retain}]
`})
	e.eventually(prompt, func() error {
		return errors.Join(e.hasClasses(standardClass, "archive", defaultVolumeClass),
			e.hasCondition(cinderConfigValid, opv1.ConditionFalse, "PartlyIgnored",
				`types.include[1]: "gold*" matches no volume type that Cinder offers`))
	})
	classes, err := e.classes()
	e.must(err)
	archive, byDefault := classes["archive"], classes[defaultVolumeClass]
	e.must(checkEqual("__DEFAULT__ Retain true, __DEFAULT__ Delete false", fmt.Sprintf(
		"%s %s %s, %s %s %s", archive.Parameters["type"], *archive.ReclaimPolicy,
		archive.Annotations[defaultAnnotation], byDefault.Parameters["type"],
		*byDefault.ReclaimPolicy, byDefault.Annotations[defaultAnnotation])))
	e.putUserConfig(nil)
	e.eventually(prompt, func() error {
		return e.hasCondition(cinderConfigValid, opv1.ConditionTrue, "AsExpected")
	})
	e.must(e.hasClasses(standardClass, "archive", defaultVolumeClass))
	e.awaitAvailable()
}
