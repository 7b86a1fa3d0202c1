package k8s

import "testing"

// A mapping that is merged into itself ends no search, and is no ConfigMap.
func TestManifestMergesItself(t *testing.T) {
	for _, text := range []string{
		"data: &d {<<: *d}\n",
		"kind: ConfigMap\ndata: &d\n  e: {<<: *d}\n  <<: *d\n",
		"data: &a {<<: &b {<<: *a}}\n",
	} {
		m, target := manifestAt(t, text)
		e := findKnob(t, "cil.hubble")
		if r, err := e.Get(m, target); err == nil {
			t.Errorf("%q: reads %q of no ConfigMap of Cilium's", text, r.Value)
		}
	}
}
