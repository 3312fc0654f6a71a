package bundle_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

const sampleIndex = `assets:
- {name: sa.yaml, role: static, side: guest}
- {name: role.yaml, role: static, side: controlPlane}
- {name: node.yaml, role: nodeWorkload, side: guest}
`

func sample() fstest.MapFS {
	return fstest.MapFS{
		"generated/standalone/index.yaml": {Data: []byte(sampleIndex)},
		"generated/standalone/sa.yaml":    {Data: []byte("kind: ServiceAccount\n")},
		"generated/standalone/role.yaml":  {Data: []byte("kind: Role\n")},
		"generated/standalone/node.yaml":  {Data: []byte("kind: DaemonSet\n")},
	}
}

func names(assets []bundle.Asset) []string {
	var all []string
	for _, asset := range assets {
		all = append(all, asset.Name)
	}
	return all
}

func TestAssetsForCSIAddonsAreOptional(t *testing.T) {
	t.Parallel()
	for name, added := range map[string]string{"without": "", "with": "node.yaml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := sample()
			if added != "" {
				const folder = "generated/standalone/csi-addons/"
				fsys[folder+"index.yaml"] = &fstest.MapFile{
					Data: []byte("assets:\n- {name: " + added + ", role: nodeWorkload, side: guest}\n"),
				}
				fsys[folder+added] = &fstest.MapFile{Data: []byte("kind: DaemonSet # other\n")}
			}
			if _, err := bundle.Load(fsys, flavour.Standalone); err != nil {
				t.Fatal(err)
			}
			loaded, err := bundle.LoadCSIAddons(fsys, flavour.Standalone)
			if err != nil {
				t.Fatal(err)
			}
			got, found := loaded.Find("node.yaml")
			if found != (added != "") || got.Name != added {
				t.Errorf("the bundle contains %q: %v", got.Name, found)
			}
		})
	}
}

func TestLoadKeepsTheOrderOfTheIndex(t *testing.T) {
	t.Parallel()
	loaded, err := bundle.Load(sample(), flavour.Standalone)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"sa.yaml", "role.yaml", "node.yaml"},
		names(loaded.Assets())); diff != "" {
		t.Errorf("order of the index is lost: %s", diff)
	}
	static := names(loaded.Select(bundle.Static, flavour.Guest))
	if diff := cmp.Diff([]string{"sa.yaml"}, static); diff != "" {
		t.Errorf("static assets of the guest: %s", diff)
	}
	if got := loaded.Select(bundle.StorageClass, flavour.Guest); got != nil {
		t.Errorf("storage classes: %v", got)
	}
	want := []bundle.Asset{{
		Name: "node.yaml", Role: bundle.NodeWorkload, Side: flavour.Guest,
		Data: []byte("kind: DaemonSet\n"),
	}}
	if diff := cmp.Diff(want, loaded.Select(bundle.NodeWorkload, flavour.Guest)); diff != "" {
		t.Error(diff)
	}
}

func TestLoadRejectsInvalidFolders(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ index, stray, want string }{
		"unknown key": {index: "assets: []\nother: 1\n", want: `"other"`},
		"missing file": {
			index: sampleIndex + "- {name: x.yaml, role: static, side: guest}\n",
			want:  `lists "x.yaml"`,
		},
		"file not in index": {
			index: sampleIndex, stray: "stray.yaml",
			want: `"stray.yaml" is not in the index`,
		},
		"unknown role": {
			index: strings.Replace(sampleIndex, "nodeWorkload", "statc", 1),
			want:  `unknown role "statc"`,
		},
		"unknown side": {
			index: strings.Replace(sampleIndex, "side: guest", "side: host", 1),
			want:  `unknown side "host"`,
		},
		"asset listed twice": {
			index: sampleIndex + "- {name: sa.yaml, role: static, side: guest}\n",
			want:  "twice",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fsys := sample()
			fsys["generated/standalone/index.yaml"].Data = []byte(test.index)
			if test.stray != "" {
				fsys["generated/standalone/"+test.stray] = &fstest.MapFile{}
			}
			_, err := bundle.Load(fsys, flavour.Standalone)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not contain %q", err, test.want)
			}
		})
	}
	if _, err := bundle.Load(sample(), flavour.HyperShift); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a flavour without bundle: %v", err)
	}
}

func TestFilesAreThoseThatLoadReads(t *testing.T) {
	t.Parallel()
	loaded, err := bundle.Load(sample(), flavour.Standalone)
	if err != nil {
		t.Fatal(err)
	}
	files, err := loaded.Files()
	if err != nil {
		t.Fatal(err)
	}
	saved := fstest.MapFS{}
	for name, text := range files {
		saved[bundle.Folder(flavour.Standalone)+"/"+name] = &fstest.MapFile{Data: text}
	}
	again, err := bundle.Load(saved, flavour.Standalone)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(loaded.Assets(), again.Assets()); diff != "" {
		t.Error(diff)
	}
}
