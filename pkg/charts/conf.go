package charts

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/gcfg.v1"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// conf is a cloud.conf, as the driver of Cinder reads it.
type conf struct {
	Global       map[string]*options
	BlockStorage api.BlockStorage
	Metadata     struct {
		SearchOrder string `gcfg:"search-order"`
	}
}

var (
	// unread is what gcfg says about settings that the driver does not read.
	unread = regexp.MustCompile(`can't store data at section "([^"]*)"(?:, subsection "[^"]*")?` +
		`(?:, variable "([^"]*)")?`)
	// cut matches a setting whose value ends where a comment begins without a space before.
	cut     = regexp.MustCompile(`(?m)^[ \t]*([A-Za-z][\w-]*)[ \t]*=[^"#;\n]*[^"#;\s]([#;])`)
	mistake = regexp.MustCompile(`^(\d+):\d+: |section "([^"]*)".*variable "([^"]*)"`)
)

// AddConf adds what files such as a cloud.conf, of which the last has precedence, say: the login,
// and settings of the driver of Cinder. Only an error about several clouds is one.
func (v *Values) AddConf(source string, texts [][]byte, read Reader) error {
	v.Set(choice.Cinder, "cinder.enabled", true, "")
	c := conf{}
	for _, text := range texts {
		for _, found := range cut.FindAllSubmatch(text, -1) {
			v.Remark(source+": "+string(found[1]), "The driver reads the value up to %s, which begins a "+
				"comment, and so do the values here. If it is a part of the value, put quotation marks "+
				"around it.", found[2])
		}
		err := gcfg.ReadStringInto(&c, strings.TrimPrefix(string(text), "\ufeff"))
		if fatal := gcfg.FatalOnly(err); fatal != nil {
			// The text of the error may contain a value.
			place := slices.Concat(mistake.FindStringSubmatch(fatal.Error()), []string{"", "", "", ""})
			at := cmp.Or(place[1], "["+place[2]+"] "+place[3])
			v.NoLogin("the driver cannot read %s (line or setting: %s): correct it, or add "+
				"--set-file=credentials.clouds=clouds.yaml", source, at)
			return nil
		}
		if err == nil {
			continue
		}
		for _, found := range unread.FindAllStringSubmatch(err.Error(), -1) {
			setting := strings.TrimSpace("[" + found[1] + "] " + found[2])
			v.Remark(source+": "+setting, "The driver of Cinder does not read it.")
		}
	}
	c.addTo(v, source)
	if len(c.Global) > 1 {
		names := strings.Join(slices.Sorted(maps.Keys(c.Global)), `"], [Global "`)
		return fmt.Errorf("%s names several clouds (%s), and a driver here serves one: keep the other "+
			"chart while volumes are in several%s", source,
			strings.ReplaceAll(`[Global "`+names+`"]`, ` ""`, ""), v.named)
	}
	login := &options{}
	for name, only := range c.Global {
		if login = only; name != "" {
			v.Remark(source+": [Global]", "The cloud has no name here: keep the other chart while "+
				"volumes or classes name a Secret with cloud: %s", name)
		}
	}
	l, remarks, err := login.trusting(v.trusted).login(source, func(f reflect.StructField) string {
		return f.Tag.Get("gcfg")
	}, read)
	return v.addLogin(choice.Cinder, source, l, remarks, err)
}

func (c *conf) addTo(v *Values, source string) {
	const most = 256
	if limit := &c.BlockStorage.NodeVolumeAttachLimit; *limit < 0 || *limit > most {
		*limit = 0 // the default
	}
	for field, value := range reflect.ValueOf(c.BlockStorage).Fields() {
		if !value.IsZero() {
			path := "cinder.spec.blockStorage." + choice.FieldName(field)
			v.Set(choice.Cinder, path, value.Interface(), source)
		}
	}
	var order []any
	for source := range strings.SplitSeq(c.Metadata.SearchOrder, ",") {
		if source = strings.TrimSpace(source); source == "configDrive" || source == "metadataService" {
			order = append(order, source)
		}
	}
	if len(order) > 0 {
		v.Set(choice.Cinder, "cinder.spec.metadata.searchOrder", order, source)
	}
	if c.Metadata.SearchOrder != "" && len(order) != strings.Count(c.Metadata.SearchOrder, ",")+1 {
		v.Remark(source+": search-order", "only configDrive and metadataService are taken over")
	}
}
