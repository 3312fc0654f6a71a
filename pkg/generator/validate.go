package generator

import (
	"errors"
	"io/fs"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// validate reports what strict decoding accepts: values that are missing, contradictory or unknown,
// and files that do not exist or that no manifest names.
func (l *layers) validate() error {
	used := map[string]bool{}
	errs := []error{validate(l, l.base, used, (*validator).layer)}
	for _, m := range l.flavours {
		errs = append(errs, validate(l, m, used, (*validator).layer))
	}
	for _, m := range l.sidecars {
		errs = append(errs, validate(l, m, used, (*validator).sidecar))
	}
	for _, m := range l.drivers {
		errs = append(errs, validate(l, m, used, (*validator).driver))
	}
	return errors.Join(append(errs, l.checkNames(), checkUnused(l.fsys, used))...)
}

func validate[T any](
	l *layers, m manifest[T], used map[string]bool, check func(*validator, T),
) error {
	used[m.File] = true
	v := &validator{document: m.document, fsys: l.fsys, used: used, flavours: flavour.All()}
	check(v, m.content)
	return m.ValidationError(v.errs)
}

// validator collects the errors of a manifest and the files that it names.
type validator struct {
	*document
	fsys     fs.FS
	used     map[string]bool
	flavours []flavour.Flavour // those that the manifest is for
	errs     field.ErrorList
}

func (v *validator) add(errs ...*field.Error) {
	v.errs = append(v.errs, errs...)
}

func (v *validator) driver(d driver) {
	v.name(field.NewPath("name"), d.Name, isDriverName)
	v.name(field.NewPath("prefix"), d.Prefix, validation.IsDNS1123Label)
	v.name(field.NewPath("clusterPrefix"), d.ClusterPrefix, validation.IsDNS1123Label)
	if len(d.Flavours) == 0 {
		v.add(field.Required(field.NewPath("flavours"), ""))
	}
	v.only(field.NewPath("flavours"), d.Flavours)
	v.flavours = d.Flavours
	if d.Controller == nil && d.Node == nil {
		v.add(field.Required(field.NewPath(nodePart), "or "+controllerPart))
	}
	for part, p := range d.parts() {
		v.driverPart(field.NewPath(part), p)
	}
	if d.Operator != nil {
		v.operatorPart(field.NewPath(installPart), d)
	}
}

func (v *validator) operatorPart(at *field.Path, d driver) {
	p := d.Operator
	if d.CompanionOf != "" {
		v.add(field.Forbidden(at, "the operator of driver "+d.CompanionOf+" maintains this companion"))
	}
	v.name(at.Child("name"), p.Name, validation.IsDNS1123Label)
	v.optionalName(at.Child("component"), p.Component, validation.IsDNS1123Label)
	v.optionalName(at.Child("namespace"), p.Namespace, validation.IsDNS1123Label)
	v.name(at.Child("credentials"), p.Credentials, validation.IsDNS1123Subdomain)
	v.required(at.Child("image"), p.Image)
	v.additions(at.Child("add"), p.Add)
	v.patches(at.Child("patches"), p.Patches)
	v.forbidTraits(at.Child("patches"), p.Patches)
}

func (v *validator) driverPart(at *field.Path, p *driverPart) {
	v.name(at.Child("name"), p.Name, validation.IsDNS1123Label)
	v.file(at.Child("workload"), p.Workload)
	if len(p.Selector) == 0 {
		v.add(field.Required(at.Child("selector"), ""))
	}
	v.add(metav1validation.ValidateLabels(p.Selector, at.Child("selector"))...)
	for i, metrics := range p.Metrics {
		at := at.Child("metrics").Index(i)
		v.name(at.Child("port"), metrics.Port, validation.IsValidPortName)
		v.name(at.Child("proxy"), metrics.Proxy, validation.IsDNS1123Label)
	}
	v.additions(at.Child("add"), p.Add)
	v.forbidGrants(at.Child("add"), p.Add)
	v.patches(at.Child("patches"), p.Patches)
	v.forbidTraits(at.Child("patches"), p.Patches)
	v.sidecars(at.Child("sidecars"), p.Sidecars)
	addons := at.Child("csiAddons")
	v.sidecars(addons.Child("sidecars"), p.CSIAddons.Sidecars)
	v.patches(addons.Child("patches"), p.CSIAddons.Patches)
	v.forbidTraits(addons.Child("patches"), p.CSIAddons.Patches)
}

func (v *validator) sidecars(at *field.Path, uses []sidecarUse) {
	for i, use := range uses {
		v.only(at.Index(i).Child("only"), use.Only)
	}
}

func (v *validator) layer(l layer) {
	for _, part := range []string{controllerPart, nodePart, installPart, kubernetesPart} {
		at, p := field.NewPath(part), l.part(part)
		if part != installPart {
			v.forbidGrants(at.Child("add"), p.Add)
		}
		v.optionalFile(at.Child("workload"), p.Workload)
		v.additions(at.Child("add"), p.Add)
		v.patches(at.Child("patches"), p.Patches)
	}
}

func (v *validator) sidecar(s sidecar) {
	v.only(field.NewPath("only"), s.Only)
	v.optionalFile(field.NewPath("controller"), s.Controller)
	v.optionalFile(field.NewPath("node"), s.Node)
	v.optionalFile(field.NewPath("volumes"), s.Volumes)
	v.additions(field.NewPath("add"), s.Add)
	v.forbidGrants(field.NewPath("add"), s.Add)
	for option, added := range s.With {
		v.additions(field.NewPath("with").Key(option), added)
		v.forbidGrants(field.NewPath("with").Key(option), added)
	}
	v.patches(field.NewPath("each"), s.Each)
	v.forbidTraits(field.NewPath("each"), s.Each)
}

func (v *validator) additions(at *field.Path, added []addition) {
	for i, a := range added {
		at := at.Index(i)
		v.file(at.Child("file"), a.File)
		v.add(oneOf(at.Child("side"), a.Side, flavour.Sides())...)
		if a.Role != "" {
			v.add(oneOf(at.Child("role"), a.Role, bundle.Roles())...)
		}
		v.only(at.Child("only"), a.Only)
		if a.Part != "" {
			v.add(oneOf(at.Child("part"), a.Part, []string{controllerPart, nodePart})...)
		}
	}
}

func (v *validator) patches(at *field.Path, entries []patchEntry) {
	for i, entry := range entries {
		at := at.Index(i)
		v.required(at.Child("target"), entry.Target)
		v.optionalFile(at.Child("merge"), entry.Merge)
		v.optionalFile(at.Child("json6902"), entry.JSON6902)
		if (entry.Merge == "") == (entry.JSON6902 == "") {
			v.add(field.Forbidden(at, "a patch has either merge or json6902"))
		}
		if entry.Merge != "" && entry.Container+entry.Trait != "" {
			v.add(field.Forbidden(at, "container and trait are for json6902: a merge names its containers"))
		}
		if entry.Container != "" && entry.Trait != "" {
			v.add(field.Forbidden(at.Child("trait"), "a patch has container or trait, not both"))
		}
		v.only(at.Child("only"), entry.Only)
	}
}

// forbidTraits allows traits in layers only: a driver and a sidecar know the names of containers.
func (v *validator) forbidTraits(at *field.Path, entries []patchEntry) {
	for i, entry := range entries {
		if entry.Trait != "" {
			v.add(field.Forbidden(at.Index(i).Child("trait"), "only layers use traits: name the container"))
		}
	}
}

// forbidGrants allows grants in the operator part only.
func (v *validator) forbidGrants(at *field.Path, added []addition) {
	for i, a := range added {
		if a.Grants {
			v.add(field.Forbidden(at.Index(i).Child("grants"), "only Roles of the operator have grants"))
		}
	}
}

func (v *validator) only(at *field.Path, only []flavour.Flavour) {
	for i, f := range only {
		v.add(oneOf(at.Index(i), f, v.flavours)...)
	}
}

func (v *validator) required(at *field.Path, value string) {
	if value == "" {
		v.add(field.Required(at, ""))
	}
}

// name checks a required name with a function of Kubernetes.
func (v *validator) name(at *field.Path, name string, check func(string) []string) {
	v.required(at, name)
	v.optionalName(at, name, check)
}

func (v *validator) optionalName(at *field.Path, name string, check func(string) []string) {
	if messages := check(name); name != "" && messages != nil {
		v.add(field.Invalid(at, name, messages[0]))
	}
}

func (v *validator) file(at *field.Path, name string) {
	v.required(at, name)
	v.optionalFile(at, name)
}

func (v *validator) optionalFile(at *field.Path, name string) {
	file := v.beside(name)
	v.used[file] = true
	if info, err := fs.Stat(v.fsys, file); name != "" && (err != nil || info.IsDir()) {
		v.add(field.NotFound(at, file))
	}
}

func oneOf[T ~string](at *field.Path, value T, supported []T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, "")}
	case !slices.Contains(supported, value):
		return field.ErrorList{field.NotSupported(at, value, supported)}
	}
	return nil
}

// isDriverName returns what is wrong with the name of a CSI driver.
func isDriverName(name string) []string {
	const maxLength = 63 // of the CSI specification
	if len(name) > maxLength {
		return []string{validation.MaxLenError(maxLength)}
	}
	return validation.IsDNS1123Subdomain(name)
}
