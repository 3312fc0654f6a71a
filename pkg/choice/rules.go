package choice

import (
	"regexp"
	"strings"
)

// Rule limits the values of the fields whose tag `rule` names it.
type Rule struct {
	// Pattern is a regular expression of the text, or of each text in a list or a map, and Max the
	// maximum of its characters.
	Pattern string
	Max     int
	// Advice says what to write instead. ByCode says that code tells more about a wrong value, so that
	// only schemas of the API contain the advice.
	Advice string
	ByCode bool
	// Expressions are conditions in CEL about the whole field, which only a schema of the API
	// contains. They call no function that Kubernetes 1.29 does not have, because the API server of
	// 1.30 refuses others.
	Expressions []Expression
}

// Expression is a condition in CEL, and the message if it is not met.
type Expression struct{ CEL, Message string }

// The regular expressions of several rules.
const (
	// printable matches everything except control characters and what has no meaning as text.
	printable = `^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}]*$`
	subdomain = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`
	labelKey  = `^(` + subdomain + `/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	labelText = `^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
	quantity  = `^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$`
	// byteKeys matches the resources that have no fractions, and byteCount their quantities.
	byteKeys  = `(memory|ephemeral-storage|hugepages-.*)`
	byteCount = `^[+-]?([0-9]+|([0-9]+(\.[0-9]*)?|\.[0-9]+)` +
		`(Ki|Mi|Gi|Ti|Pi|Ei|[kMGTPE]|[eE][+-]?[0-9]+))$`
	octet = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
)

// The advice of several rules.
const (
	labelAdvice   = "use letters, digits, '-', '_' and '.', with a letter or digit at both ends"
	byteAdvice    = "use a unit such as Mi, not m: memory and storage have no fraction of a byte"
	networkAdvice = "use one network, such as 10.0.0.0/16 or fd00::/64"
)

// reservedKey matches keys of labels and annotations that select pods, or are permissions. Objects
// for Kubernetes name no key of OpenShift.
const (
	reservedKey  = `^(.*\.)?(kubernetes\.io|k8s\.io|csi\.openstack\.org)/`
	reservedKeys = "those of Kubernetes and of the operator are reserved"
)

// RuleOf returns the rule with a name for a kind, the zero value for "".
func RuleOf(kind Kind, name string) Rule {
	switch name {
	case "name":
		return Rule{Pattern: "^" + subdomain + "$", Max: 253, Advice: "use lower case letters, " +
			"digits, '-' and '.', with a letter or digit at both ends"}
	case "glob":
		const one = `([^\\\]-]|\\[\s\S])`
		return Rule{
			Max:     255,
			Pattern: `^([^\\\[]|\\[\s\S]|\[\^?(` + one + `(-` + one + `)?)+\])+$`,
			Advice:  "use a pattern such as gold-*; put a backslash before [ in a name",
		}
	case "option":
		return Rule{
			Pattern: `^[\p{L}\p{M}\p{N}\p{P}\p{S}]+$`, Max: 4096,
			Advice: "use one option, such as nfsvers=4.1",
		}
	case "zone":
		return Rule{Pattern: printable, Max: 255, Advice: "use the name of an availability zone"}
	case "filesystem":
		return Rule{Pattern: `^[a-z0-9]+$`, Max: 16, Advice: "use a filesystem such as ext4 or xfs"}
	case "duration":
		return Rule{Pattern: `^[1-9][0-9]{0,3}[sm]$`, Max: 5, Advice: "use seconds or minutes, such as " +
			"90s or 3m"}
	case "id":
		return Rule{
			Pattern: `^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$`,
			Max:     36,
			Advice:  "use the ID of a share network: openstack share network list",
		}
	case "image": // the pattern is that of values in assets
		return Rule{
			Pattern: `^(\[[0-9A-Fa-f:]+\])?[A-Za-z0-9._:/@+~-]+$`, Max: 1024,
			Advice: "use the name of an image, such as registry.example.com/csi-addons:v1",
		}
	case "folder":
		return Rule{
			Pattern: `^(/(\.?[A-Za-z0-9_-]|\.\.[A-Za-z0-9._-])[A-Za-z0-9._-]*)+$`,
			Advice: "use an absolute path such as /var/lib/k0s/kubelet, without a slash at its end, of " +
				"letters, digits, '.', '_' and '-'",
		}
	case "network":
		return Rule{Max: 64, ByCode: true, Advice: networkAdvice, Pattern: `^((` + octet + `\.){3}` +
			octet + `/(3[0-2]|[12]?\d)|[\da-fA-F:.]*:[\da-fA-F:.]*/(12[0-8]|1[01]\d|[1-9]?\d))$`}
	}
	return ruleOfMap(kind, name)
}

// ruleOfMap returns a rule about maps or lists.
func ruleOfMap(kind Kind, name string) Rule {
	keys := Expression{
		"self.all(k, k.matches(r'" + labelKey + "'))",
		"use keys such as example.com/name, as Kubernetes defines them for labels",
	}
	switch name {
	case "labels":
		return Rule{
			Pattern: labelText, Max: 63, ByCode: true, Advice: labelAdvice,
			Expressions: []Expression{keys},
		}
	case "nodes":
		return Rule{Expressions: []Expression{{
			"!('kubernetes.io/os' in self) || self['kubernetes.io/os'] == 'linux'",
			"remove the label kubernetes.io/os: drivers run on Linux only",
		}}}
	case "added":
		return Rule{Expressions: []Expression{{
			"!self.exists(k, k.matches(r'" + reservedKey + "'))",
			"use other keys: " + reservedKeys,
		}}}
	case "annotations":
		keys.CEL = strings.Replace(keys.CEL, "k.matches", "k.lowerAscii().matches", 1)
		return Rule{Expressions: []Expression{keys, {
			"!('" + DefaultAnnotation + "' in self) && !('" + BetaDefaultAnnotation + "' in self)",
			"use the field defaultClass in place of the annotation " + DefaultAnnotation,
		}}}
	case "metadata":
		return Rule{
			Pattern: printable, Max: 1023, ByCode: true, Advice: "use printable characters",
			Expressions: []Expression{{
				"self.all(k, k != '' && size(k) <= 255 && k.matches(r'" + printable + "'))",
				"use keys of 1 to 255 printable characters",
			}},
		}
	case "labelText":
		return Rule{Pattern: labelText, Max: 63, Advice: labelAdvice}
	case "quantity":
		return Rule{Pattern: quantity}
	case "byteKeys":
		return Rule{Pattern: "^" + byteKeys + "$"}
	case "byteCount": // of texts without limit, only such expressions are cheap
		return Rule{Pattern: byteCount, Advice: byteAdvice, Expressions: []Expression{{
			"self.all(k, k != 'memory' && k != 'ephemeral-storage' && !k.startsWith('hugepages-') || " +
				"type(self[k]) == int || !(self[k].endsWith('m') || self[k].endsWith('u') || " +
				"self[k].endsWith('n')))", byteAdvice,
		}}}
	case "set":
		return Rule{Expressions: []Expression{
			{"self.all(a, self.exists_one(b, a == b))", "use each value once"},
		}}
	case "classes":
		return Rule{Expressions: classRules(kind)}
	}
	return Rule{}
}

func classRules(kind Kind) []Expression {
	rules := []Expression{
		{
			"self.all(c, has(c.name) || has(c.type) && self.exists_one(d, !has(d.name) && has(d.type) && " +
				"d.type == c.type))",
			"set the type, and give each further entry of a type a name of its own",
		},
		{
			"self.all(c, !has(c.name) || self.exists_one(d, has(d.name) && d.name == c.name))",
			"use each name once",
		},
		{
			"self.all(c, !has(c.name) || !has(c.type) || c.name != '" + ClassPrefix(kind) +
				"' + c.type.lowerAscii().replace('_', '-'))", ownName,
		},
	}
	if kind == Cinder {
		rules = append(rules, Expression{
			"self.all(c, !has(c.name) || c.name != '" + standardClass + "')",
			"use another name: " + standardClass + " is that of the StorageClass without a type",
		})
	}
	return rules
}

func (c *checker) pattern(text string) *regexp.Regexp {
	if c.patterns[text] == nil {
		c.patterns[text] = regexp.MustCompile(text)
	}
	return c.patterns[text]
}
