package choice

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of metadata in Manila.
const (
	maxMetadataKey   = 255
	maxMetadataValue = 1023
)

// PlainName returns the name of the StorageClass of a type after its prefix, if it is free. It
// follows the rule of csi-driver-manila-operator and OpenShift's csi-operator.
func PlainName(typeName string) string {
	return strings.ReplaceAll(strings.ToLower(typeName), "_", "-")
}

// ClassPrefix returns the prefix of the names of the StorageClasses that the operator names itself.
func ClassPrefix(kind Kind) string {
	return "csi-" + strings.ToLower(strings.TrimSuffix(string(kind), "Config")) + "-"
}

// HashedName returns a valid and unique name for the StorageClass of any type.
func HashedName(kind Kind, typeName string) string {
	isOther := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }
	hash := fmt.Sprintf("%x", sha256.Sum256([]byte(typeName)))[:8]
	readable := strings.Join(strings.FieldsFunc(strings.ToLower(typeName), isOther), "-")
	room := validation.DNS1123SubdomainMaxLength - len(ClassPrefix(kind)) - len(hash) - 1
	if len(readable) > room {
		readable = strings.TrimRight(readable[:room], "-")
	}
	return ClassPrefix(kind) + strings.TrimPrefix(readable+"-"+hash, "-")
}

// IsOwnName returns whether only the operator gives the name to a StorageClass of the type.
func IsOwnName(kind Kind, name, typeName string) bool {
	return typeName != "" &&
		(name == ClassPrefix(kind)+PlainName(typeName) || name == HashedName(kind, typeName))
}

// ownName says what to do about a name that the operator gives the StorageClass of a type itself.
const ownName = "remove the name: the operator gives it to the StorageClass of the type itself"

// standardClass is the StorageClass that the operator of Cinder creates without a choice.
const standardClass = "standard-csi"

// validate reports what the tags of the fields accept.
func validate(kind Kind, d *Document) field.ErrorList {
	var errs field.ErrorList
	if d.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), d.APIVersion,
			[]string{APIVersion}))
	}
	if d.Kind != kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), d.Kind, []Kind{kind}))
	}
	if d.ExportLocations != "" {
		errs = append(errs, validateNetwork(d.ExportLocations, field.NewPath("exportLocations"))...)
	}
	errs = append(errs, d.Class.validate(field.NewPath("class"))...)
	return append(errs, validateClasses(kind, d.Classes)...)
}

func validateClasses(kind Kind, classes []NamedClass) (errs field.ErrorList) {
	names, types := sets.New[string](), sets.New[string]()
	for i, c := range classes {
		at := field.NewPath("classes").Index(i)
		if c.Type == "" && (kind == Manila || c.Name == "") {
			errs = append(errs, field.Invalid(at.Child("type"), c.Type, "use the name of a type"))
		}
		switch {
		case c.Name == "" && types.Has(c.Type):
			errs = append(errs, field.Duplicate(at.Child("type"), c.Type))
		case c.Name == "":
			types.Insert(c.Type)
		case names.Has(c.Name):
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		case c.Type != "" && c.Name == ClassPrefix(kind)+PlainName(c.Type):
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, ownName))
		case kind == Cinder && c.Name == standardClass:
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, "use another name: this one is "+
				"that of the StorageClass without a type"))
		default:
			names.Insert(c.Name)
		}
		errs = append(errs, c.Class.validate(at)...)
	}
	return errs
}

func (c Class) validate(at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(c.Labels, at.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(c.Annotations, at.Child("annotations"))...)
	for _, name := range []string{DefaultAnnotation, BetaDefaultAnnotation} {
		if _, found := c.Annotations[name]; found {
			errs = append(errs, field.Forbidden(at.Child("annotations").Key(name),
				"use the field defaultClass"))
		}
	}
	return append(errs, c.validateShares(at)...)
}

func unprintable(r rune) bool { return !unicode.IsGraphic(r) || r == utf8.RuneError }

func (c Class) validateShares(at *field.Path) (errs field.ErrorList) {
	for i, client := range c.ShareClients {
		errs = append(errs, validateNetwork(client, at.Child("shareClients").Index(i))...)
	}
	for key, value := range c.ShareMetadata {
		entry := at.Child("shareMetadata").Key(key)
		if key == "" || utf8.RuneCountInString(key) > maxMetadataKey ||
			utf8.RuneCountInString(value) > maxMetadataValue ||
			strings.ContainsFunc(key+value, unprintable) {
			errs = append(errs, field.Invalid(entry, value, fmt.Sprintf(
				"use a key of 1 to %d and a value of at most %d printable characters",
				maxMetadataKey, maxMetadataValue)))
		}
	}
	return errs
}

func validateNetwork(client string, at *field.Path) field.ErrorList {
	network, err := netip.ParsePrefix(client)
	address, noAddress := netip.ParseAddr(client)
	switch {
	case noAddress == nil && address.Zone() == "":
		return field.ErrorList{field.Invalid(at, client, fmt.Sprintf("use the network %s/%d",
			address, address.BitLen()))}
	case err != nil:
		return field.ErrorList{field.Invalid(at, client, networkAdvice)}
	case network != network.Masked():
		return field.ErrorList{field.Invalid(at, client, "use the network "+network.Masked().String())}
	}
	return nil
}
