package k8s

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// kubeProxyKnobs are those of kube-proxy.
func kubeProxyKnobs() []knob.Entry {
	return []knob.Entry{{
		Facts: knob.Facts{
			Name:     "kp.mode",
			Title:    "How kube-proxy implements Services",
			Values:   "iptables, ipvs, nftables",
			Scope:    knob.ScopeManifest,
			Helps:    []knob.Benefit{knob.Latency},
			Risk:     "node ports on localhost and pods that reach themselves through a Service behave differently; rules of the old mode stay until kube-proxy cleans up",
			Needs:    "nftables: kernel 5.13, and Kubernetes 1.31 (1.33: no longer beta); useful with more than about 1000 Services",
			Grade:    knob.GradeD,
			Evidence: "a first packet walks all iptables rules and a few nftables rules (Kubernetes' documentation, EKS); with few Services a benchmark on TKE found no gain",
			Undo:     "the file gets its old bytes back; apply it, clean up with kube-proxy --cleanup on each node, and restart the DaemonSet",
		},
		Knob: choiceKnob(kubeProxy, "mode", []string{"iptables", "iptables"}, []string{"ipvs", "ipvs"}, []string{"nftables", "nftables"}).annotated(func(_ settings, r knob.Reading) knob.Reading {
			if r.Value == "" {
				r.Value = defaultValue // what kubeadm writes
			}
			r.Note = "in effect when kube-proxy has restarted: kubectl -n kube-system rollout restart ds/kube-proxy; rules of the old mode stay until kube-proxy --cleanup"
			return r
		}),
	}}
}

// kubeProxy finds kube-proxy's configuration: an object of its own, or a text in
// its ConfigMap.
func kubeProxy(f manifest) (settings, error) {
	own, err := f.findOne("KubeProxyConfiguration", "")
	if err == nil {
		return mappingSettings{f: f, pos: own.pos, keys: nestedKey()}, nil
	}
	if verr.Code(err) != verr.Missing {
		return nil, err
	}
	o, err := f.findOne("ConfigMap", "kube-proxy")
	if err != nil {
		return nil, err
	}
	s := textSettings{f: f, pos: o.pos}
	for _, key := range []string{"data", "config.conf"} {
		i := yamledit.IndexOf(f.Node(s.pos), key)
		if i < 0 {
			return nil, verr.New(verr.Missing, "cannot find kube-proxy's configuration", "ConfigMap kube-proxy has no "+key, "name the file with the one that kubeadm made")
		}
		s.pos = s.pos.Child(i + 1)
	}
	if n := f.Node(s.pos); n.Kind != yaml.ScalarNode {
		return nil, verr.New(verr.Usage, "cannot read kube-proxy's configuration", fmt.Sprintf("line %d: config.conf is no text of its own", n.Line), "write it out")
	}
	if _, _, err := s.parse(); err != nil {
		return nil, verr.Wrap(verr.Usage, "cannot read kube-proxy's configuration", err, "see what is in config.conf")
	}
	return s, nil
}

// textSettings are settings of an object that is the text of a value of another one.
type textSettings struct {
	f   manifest
	pos yamledit.NodePath // of the value
}

func (s textSettings) parse() (manifest, mappingSettings, error) {
	f, err := parseManifest([]byte(s.f.Node(s.pos).Value))
	if err != nil {
		return manifest{}, mappingSettings{}, err
	}
	all := f.objects()
	if len(all) != 1 {
		return manifest{}, mappingSettings{}, fmt.Errorf("it has %d objects, want one", len(all))
	}
	return f, mappingSettings{f: f, pos: all[0].pos, keys: nestedKey()}, nil
}

func (s textSettings) get(key string) (string, bool) {
	_, in, err := s.parse()
	if err != nil {
		return "", false
	}
	return in.get(key)
}

func (s textSettings) set(key, text string) error {
	return s.change(func(in mappingSettings) error { return in.set(key, text) })
}

func (s textSettings) drop(key string) error {
	return s.change(func(in mappingSettings) error { return in.drop(key) })
}

func (s textSettings) change(by func(mappingSettings) error) error {
	f, in, err := s.parse()
	if err == nil {
		err = by(in)
	}
	if err != nil {
		return err
	}
	return s.f.SetText(s.pos, string(f.Text))
}

func (s textSettings) partial() bool { return false }
