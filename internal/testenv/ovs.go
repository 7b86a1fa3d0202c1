package testenv

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
)

// Needs skips a test that does not run as root, or on a machine that lacks something.
func Needs(t testing.TB, needs ...feature.Need) {
	t.Helper()
	Root(t)
	for _, n := range needs {
		if answer, _ := n.Ask(); answer == feature.No {
			lacks, get := n.Lack()
			t.Skipf("%s: %s", lacks, get)
		}
	}
}

// OVSRuntime gives a place for daemons of Open vSwitch and OVN, which end with the
// test, and the list of them as they are started. Without what the machine
// needs for them the test is skipped.
func OVSRuntime(t testing.TB, needs ...feature.Need) (ovs.Runtime, *[]*netcfg.Child) {
	t.Helper()
	Needs(t, needs...)
	w, err := netcfg.Owned(Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Create(w.Name("place"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	var children []*netcfg.Child
	p := ovs.Runtime{In: n, Folder: t.TempDir(), Start: func(c netcfg.Command) (*netcfg.Child, error) {
		child, err := n.Start(c)
		if err == nil {
			children = append(children, child)
		}
		return child, err
	}}
	t.Cleanup(func() {
		for _, c := range slices.Backward(children) {
			c.Stop(0)
		}
	})
	return p, &children
}
