package path_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// Tunnels that do not say which VNI they have get one that nobody else has on
// the same port, whatever the order.
func TestFitVNIs(t *testing.T) {
	for _, c := range []struct {
		paths string
		want  []int
	}{
		{"vxlan vxlan-dev host", []int{1, 1, 0}},
		{"vxlan vxlan vxlan", []int{1, 17, 33}},
		{"vxlan:port=4789 vxlan-dev", []int{1, 2}},
		{"vxlan:port=4789,tunnels=5 vxlan-dev:tunnels=2 vxlan-dev", []int{1, 6, 17}},
		{"vxlan vxlan:vni=1", []int{2, 1}},
		{"vxlan-dev:port=8472,tunnels=3 vxlan:vni=2", []int{3, 2}},
		{"vxlan:vni=7 vxlan:vni=7,port=4789 ovs-vxlan:vni=7", []int{7, 7, 0}},
		{"vxlan:vni=3,tunnels=4 vxlan:vni=7", []int{3, 7}},
	} {
		arms, err := path.Arms(strings.Fields(c.paths), nil)
		if err == nil {
			err = path.Allocate(arms, 2)
		}
		var got []int
		for _, a := range arms {
			got = append(got, a.VNI)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: VNIs %v, %v, want %v", c.paths, got, err, c.want)
		}
	}
}

// What takes all that comes by a UDP port has one that nobody else has.
func TestFitPorts(t *testing.T) {
	for _, c := range []struct {
		paths string
		want  []int
	}{
		{"geneve host geneve ovs-geneve:datapath=netdev", []int{6081, 0, 6082, 0}},
		{"geneve geneve:port=6081 geneve", []int{6082, 6081, 6083}},
		{"geneve vxlan:port=6081 geneve:port=8472", []int{6082, 0, 8472}},
	} {
		arms, err := path.Arms(strings.Fields(c.paths), nil)
		if err == nil {
			err = path.Allocate(arms, 2)
		}
		var got []int
		for _, a := range arms {
			got = append(got, a.Port)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: ports %v, %v, want %v", c.paths, got, err, c.want)
		}
	}
}

// What cannot be up at once is refused, with the names of both.
func TestFitRefuses(t *testing.T) {
	for paths, what := range map[string]string{
		"vxlan:vni=7 vxlan:vni=7":                              "cannot raise path vxlan.2 beside vxlan",
		"vxlan:port=4789,vni=7 host vxlan-dev:vni=6,tunnels=2": "cannot raise path vxlan-dev beside vxlan",
		"geneve:port=7000 geneve:port=7000":                    "cannot raise path geneve.2 beside geneve",
		"vxlan geneve:port=8472":                               "cannot raise path geneve beside vxlan",
		"bgp:reflector=2":                                      "cannot raise path bgp with reflector=2",
	} {
		arms, err := path.Arms(strings.Fields(paths), nil)
		if err == nil {
			err = path.Allocate(arms, 2)
		}
		if verr.Code(err) != verr.Usage || !strings.HasPrefix(err.Error(), what) {
			t.Errorf("%s: %v, want %s", paths, err, what)
		}
	}
}

// A virtual machine on each of many machines is refused, the more so as only
// those of two are measured.
func TestFitMachines(t *testing.T) {
	for _, spec := range []string{"vm-vlan:datapath=netdev", "vm-vxlan:datapath=netdev"} {
		arms, err := path.Arms([]string{"host", spec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := path.Allocate(arms, 4); err != nil {
			t.Errorf("%s on 4 machines: %v", spec, err)
		}
		if err := path.Allocate(arms, 5); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "512 MiB and 2 CPUs on each") {
			t.Errorf("%s on 5 machines: %v", spec, err)
		}
	}
}
