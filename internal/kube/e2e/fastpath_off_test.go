package e2e_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
)

// offLabel keeps the chart's fast path from a node.
const offLabel = "venturi.io/fastpath"

// What an operator has switched off stays off: after "fastpath disable" on a node until its pod is deleted,
// and by a label whatever becomes of pods. The other node carries on.
func TestClusterFastPathStaysOff(t *testing.T) {
	p := newPlugin(t)
	h := newHelm(t, p, "privileged")
	p.toolPods(t, p.namespace(t, "restricted"), "a", "b") // where there is no pod there is nothing to carry
	f := &fastPaths{plugin: p, program: p.link(t, "venturi"), namespace: h.namespace}
	names, nodes := h.names(t), p.settledStates(t)
	if out, err := h.run("install", "net", chart, "--set", "watch.enabled=false,fastPath.enabled=true,image.name="+clustertest.VenturiImage+",image.pullPolicy=Never"); err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, pod := range f.fastPathPods(t, "") {
				var said string
				_ = p.Request(context.Background(), http.MethodGet, f.path("pods/"+pod+"/log"), nil, &said)
				t.Logf("%s says:\n%s", pod, said)
			}
		}
	})
	off, other := p.Nodes[0].Name, p.Nodes[1].Name
	f.awaitOn(t, off)
	f.awaitOn(t, other)

	before, pods := f.daemons(t, off), f.fastPathPods(t, off)
	f.onNode(t, off, f.program, "fastpath", "disable")
	var said string
	await(t, "the pod says that it stays off", func() bool {
		return len(pods) == 1 && p.Request(t.Context(), http.MethodGet, f.path("pods/"+pods[0]+"/log"), nil, &said) == nil && strings.Contains(said, "the fast path stays off here")
	})
	if s, now := f.status(t, off), f.daemons(t, off); s.Running || len(before) != 1 || !slices.Equal(now, before) {
		t.Errorf("after disable: %+v; processes %v, before %v; the pod says %s", s, now, before, said)
	}
	f.deletePods(t)
	f.awaitOn(t, off)
	f.awaitOn(t, other)

	label := func(change func(labels map[string]any)) {
		p.changeNode(t, off, func(node map[string]any) { change(node["metadata"].(map[string]any)["labels"].(map[string]any)) })
	}
	t.Cleanup(func() { label(func(labels map[string]any) { delete(labels, offLabel) }) })
	label(func(labels map[string]any) { labels[offLabel] = "off" })
	await(t, "the fast path is gone from "+off, func() bool { return len(f.fastPathPods(t, off)) == 0 && len(f.daemons(t, off)) == 0 })
	f.deletePods(t)
	f.awaitOn(t, other)
	if s, now := f.status(t, off), f.fastPathPods(t, off); s.Running || len(now) > 0 {
		t.Errorf("with the label: %+v; pods %v", s, now)
	}
	label(func(labels map[string]any) { delete(labels, offLabel) })
	f.awaitOn(t, off)
	h.uninstall(t, names)
	p.wantStates(t, nodes)
}

// awaitOn waits until a node's fast path is past its comparison and carries what comes: the pods here are idle.
func (f *fastPaths) awaitOn(t *testing.T, node string) {
	t.Helper()
	var s fastPathStatus
	defer func() {
		if t.Failed() {
			t.Logf("seen last on %s: %+v, %+v", node, s, s.State)
		}
	}()
	await(t, "the fast path of "+node+" is on", func() bool {
		s = f.status(t, node)
		return s.Running && s.State != nil && s.State.Off == "" && s.State.Peers > 0
	})
}

// fastPathPods are the pods of the chart's DaemonSet that run on a node; an empty name: on any.
func (f *fastPaths) fastPathPods(t *testing.T, node string) (names []string) {
	t.Helper()
	for _, pod := range f.running(t, f.namespace, "") {
		if strings.Contains(pod.Metadata.Name, "fastpath") && (node == "" || pod.Spec.NodeName == node) {
			names = append(names, pod.Metadata.Name)
		}
	}
	return names
}

// deletePods deletes those of the DaemonSet, and waits until they are gone.
func (f *fastPaths) deletePods(t *testing.T) {
	t.Helper()
	old := f.fastPathPods(t, "")
	for _, name := range old {
		testenv.Must(t, f.Request(t.Context(), http.MethodDelete, f.path("pods/"+name), nil, nil))
	}
	await(t, "the old pods are gone", func() bool {
		return !slices.ContainsFunc(f.fastPathPods(t, ""), func(name string) bool { return slices.Contains(old, name) })
	})
}
