package k8s

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// Knobs are the settings of a cluster's network, in the files that somebody will apply to it.
func Knobs() []knob.Entry {
	return slices.Concat(
		kubeOVNKnobs(),
		ciliumRouting(), ciliumServices(), ciliumDatapath(),
		calicoPoolKnobs(), calicoFelixKnobs(),
		kubeProxyKnobs(),
	)
}

// manifest is a file of Kubernetes objects.
type manifest struct{ *yamledit.File }

func parseManifest(text []byte) (manifest, error) {
	f, err := yamledit.Parse(text)
	return manifest{f}, err
}

// object is one thing of a cluster in a file, or a file of settings that is none.
type object struct {
	pos  yamledit.NodePath // of its mapping
	kind string
	name string
	node *yaml.Node
}

// objects lists what the file holds; what is in a List is taken out of it.
func (f manifest) objects() (found []object) {
	var add func(at yamledit.NodePath)
	add = func(at yamledit.NodePath) {
		n := f.Node(at)
		if n.Kind != yaml.MappingNode {
			return
		}
		o := object{pos: at, node: n, kind: yamledit.ScalarAt(n, "kind"), name: yamledit.ScalarAt(n, "metadata", "name")}
		if i := yamledit.IndexOf(n, "items"); i >= 0 && strings.HasSuffix(o.kind, "List") {
			for k := range n.Content[i+1].Content {
				add(at.Child(i+1, k))
			}
			return
		}
		found = append(found, o)
	}
	for i, doc := range f.Docs {
		if len(doc.Content) == 1 {
			add(yamledit.NodePath{i, 0})
		}
	}
	return found
}
