package path_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A path of other projects' programs says which versions those have.
func TestVersions(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"routed", "ovs-vlan:datapath=netdev", "ovn-underlay:datapath=netdev"}})
	for i, want := range [][]string{nil, {"openvswitch"}, {"openvswitch", "ovn"}} {
		arm := l.Arms[i]
		if got := slices.Sorted(maps.Keys(arm.Versions)); !slices.Equal(got, want) {
			t.Errorf("%s has versions of %v, want %v", arm.Name, got, want)
		}
		for component, version := range arm.Versions {
			if !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(version) {
				t.Errorf("%s: the version of %s is %q", arm.Name, component, version)
			}
		}
	}
}
