package values

import (
	"encoding/base64"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Secret is what no message about a login repeats.
const Secret = "confidential"

// Login is what somebody may write as credentials.clouds.
type Login struct {
	Value any
	// IsValid is true if the chart and the operators accept it.
	IsValid bool
}

// Logins returns shapes of credentials.clouds by name: each content in each form, and others.
func Logins() (map[string]Login, error) {
	type object = map[string]any
	entry := object{"auth": object{
		"auth_url": "https://k:5000/v3", "application_credential_id": "a",
		"application_credential_secret": Secret,
	}}
	found := map[string]Login{}
	for name, content := range map[string]Login{
		"one entry":                {object{"clouds": object{"openstack": entry}}, true},
		"an entry of another name": {object{"clouds": object{"mine": entry}}, true},
		"a default entry beside one": {
			object{"clouds": object{"mine": entry, "openstack": entry}}, true,
		},
		"several without the default": {object{"clouds": object{"mine": entry, "yours": entry}}, false},
		"beside another key":          {object{"clouds": object{"openstack": entry}, "a": "b"}, true},
		"without the key clouds":      {object{"openstack": entry}, false},
		"without an entry":            {object{"clouds": object{}}, false},
		"with an empty clouds":        {object{"clouds": nil}, false},
		"a list of entries":           {object{"clouds": []any{entry}}, false},
		"below another key":           {object{"a": object{"clouds": object{"openstack": entry}}}, false},
	} {
		bytes, err := yaml.Marshal(content.Value)
		if err != nil {
			return nil, err
		}
		json, err := yaml.YAMLToJSON(bytes)
		if err != nil {
			return nil, err
		}
		text := string(bytes)
		for form, in := range map[string]Login{
			"text":                         {text, true},
			"JSON":                         {string(json), true},
			"text with Windows line ends":  {strings.ReplaceAll(text, "\n", "\r\n"), true},
			"text after a line of dashes":  {"# mine\n---\n" + text, true},
			"text before a document":       {text + "---\na: b\n", true},
			"text after an empty document": {"---\n---\n" + text, false},
			"text in one line":             {strings.ReplaceAll(text, "\n", " "), false},
			"text of invalid YAML":         {text + "a: [\n", false},
			"base64":                       {base64.StdEncoding.EncodeToString(bytes), false},
			"map":                          {content.Value, false},
			"list":                         {[]any{content.Value}, false},
			"list of texts":                {[]any{text}, false},
		} {
			found[name+" as "+form] = Login{in.Value, in.IsValid && content.IsValid}
		}
	}
	for _, value := range []any{
		nil, "", " ", "\n", "clouds.yaml", "clouds:", "null", 0, 5, true, false,
		[]any{},
		object{},
	} {
		found[fmt.Sprintf("%#v", value)] = Login{value, value == nil || value == ""}
	}
	return found, nil
}
