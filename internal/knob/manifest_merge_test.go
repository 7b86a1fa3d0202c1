package knob

import (
	"fmt"
	"testing"
)

// merging are files whose mappings are merged into themselves or, each twice, into
// one another, so that a search by paths would not end.
func merging() []string {
	bomb := "m0: &m0 {z: 1}\n"
	for i := 1; i <= 60; i++ {
		bomb += fmt.Sprintf("m%d: &m%[1]d {<<: [*m%d, *m%[2]d]}\n", i, i-1)
	}
	return []string{
		"data: &d {<<: *d}\n",
		"data: &d {<<: [*d, *d], a: b}\n",
		"kind: ConfigMap\ndata: &d\n  e: {<<: *d}\n  <<: *d\n",
		"data: &a {<<: &b {<<: *a}}\n",
		bomb + "data: {<<: *m60}\n",
	}
}

// A mapping that is merged into itself has no key for that, and a search in it ends.
func TestManifestMergesItself(t *testing.T) {
	for _, text := range merging() {
		f, err := parseManifest([]byte(text))
		if err != nil {
			t.Fatalf("%.60q: %v", text, err)
		}
		for _, o := range f.objects() {
			if data := lookupKey(o.node, "data"); data == nil || lookupKey(data, "x") != nil {
				t.Errorf("%.60q: data is %v, or has x", text, data)
			}
		}
		m, target := manifestAt(t, text)
		e, err := Find("cil.hubble")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := e.Get(m, target); err == nil {
			t.Errorf("%.60q: reads %q of no ConfigMap of Cilium's", text, r.Value)
		}
	}
}
