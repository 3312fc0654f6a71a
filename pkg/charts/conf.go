package charts

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"
	"gopkg.in/gcfg.v1"

	"github.com/openstack-csi/csi-operator/pkg/api"
	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
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
			v.NoLogin("the driver cannot read %s (line or setting: %s): correct it, or "+
				AddLogin, source, at)
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
	nameOf := func(f reflect.StructField) string { return f.Tag.Get("gcfg") }
	return v.addOptions(choice.Cinder, "[Global] of "+source, login, nameOf, read)
}

func (c *conf) addTo(v *Values, source string) {
	const most = 256
	if limit := &c.BlockStorage.NodeVolumeAttachLimit; *limit < 0 || *limit > most {
		v.Remark(source+": node-volume-attach-limit", "The driver ignores it, and uses %d.", most)
		*limit = 0
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

// base returns the entry of a clouds.yaml that fills what is missing. The driver reads no other.
func (o *options) base(read Reader) (map[string]any, error) {
	cloud := map[string]any{}
	if !o.UseClouds {
		return cloud, nil
	}
	file := cmp.Or(o.CloudsFile, "/etc/openstack/clouds.yaml")
	text, err := read(file)
	if err != nil {
		return nil, fmt.Errorf("the login is the entry %s of %s, and %w. Copy it into a clouds.yaml as "+
			"entry %s, and set there what overrides it", cmp.Or(o.Cloud, "without a name"), file, err,
			clouds.DefaultEntry)
	}
	var found clientconfig.Clouds
	if yaml.Unmarshal(text, &found) != nil {
		return nil, fmt.Errorf("the clouds-file %s is no clouds.yaml", file)
	}
	chosen, exists := found.Clouds[o.Cloud]
	for _, only := range found.Clouds {
		if o.Cloud == "" && len(found.Clouds) == 1 {
			chosen, exists = only, true
		}
	}
	if !exists {
		return nil, fmt.Errorf("the clouds-file %s has no entry for the option cloud", file)
	}
	kept := clientconfig.Cloud{
		Profile: chosen.Profile, Cloud: chosen.Cloud, AuthInfo: chosen.AuthInfo,
		RegionName: chosen.RegionName, CACertFile: chosen.CACertFile,
		EndpointType:   cmp.Or(chosen.EndpointType, chosen.Interface),
		ClientCertFile: chosen.ClientCertFile, ClientKeyFile: chosen.ClientKeyFile,
	}
	if text, err = yaml.Marshal(kept); err == nil {
		err = yaml.Unmarshal(text, &cloud)
	}
	return cloud, err
}
