package compare

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// A gauge measures a path again and again, on fresh sockets, in one lab; and says
// what it lies in.
func TestGauge(t *testing.T) {
	h := testHost(t, deaf{})
	q := Request{Paths: []string{"vxlan"}, NoHost: true, NoCopy: true, Loads: []string{"tcp_lat", "tcp_bw"}, Slice: 5e6, Rounds: 2, Wait: true}
	s, err := Open(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	g, err := s.Gauge(resolve(t, q))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rec, err := g.Measure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cells := map[string]int{}
		for _, slice := range rec.Slices {
			if slice.Failed == "" {
				cells[slice.Cell]++
			}
		}
		if len(cells) != 2 || cells[load.CellName(result.Cell{Load: "tcp_lat", Size: 1, Flows: 1})] != 2 || len(rec.Meters) == 0 || len(rec.Warnings) != 0 {
			t.Errorf("slices %v, %d meters, warnings %v", cells, len(rec.Meters), rec.Warnings)
		}
	}
	spaces, err := s.Namespaces()
	if err != nil || len(spaces.Machines) != 2 || len(spaces.Pods) != 2 {
		t.Fatalf("%+v, %v", spaces, err)
	}
	has := func(kind string, card bool) int {
		n := 0
		for _, d := range spaces.Devices {
			if d.Kind == kind && d.Card == card {
				n++
			}
		}
		return n
	}
	if has("vxlan", false) != 2 || has("veth", true) != 2 || has("veth", false) != 4 || slices.ContainsFunc(spaces.Devices, func(d NamespaceDevice) bool { return d.Name == "lo" }) {
		t.Errorf("devices %+v", spaces.Devices)
	}
}

// The network cards of a path are those that its packets pass: the wire's, or its own, which are in its machines
// or in its switches. Then the wire is none of its devices.
func TestCardsOfPaths(t *testing.T) {
	h := testHost(t, deaf{})
	for path, c := range map[string]struct {
		card     string
		inSwitch bool
		needs    []feature.Need
	}{
		"routed":                   {card: lab.WireDevice},
		"macvlan":                  {card: "card0", needs: []feature.Need{feature.MACVLAN}},
		"ovs-vlan:datapath=netdev": {card: "card0", inSwitch: true, needs: ovs.Needs()},
	} {
		t.Run(path, func(t *testing.T) {
			testenv.Needs(t, c.needs...)
			q := Request{Paths: []string{path}, NoHost: true, NoCopy: true, Loads: []string{"tcp_lat"}, Wait: true}
			s, err := Open(t.Context(), resolve(t, q), h)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			spaces, err := s.Namespaces()
			if err != nil {
				t.Fatal(err)
			}
			cards := map[string]bool{} // by namespace
			for _, d := range spaces.Devices {
				if d.Card != (d.Name == c.card) || d.Name == lab.WireDevice && c.card != lab.WireDevice {
					t.Errorf("%+v is among the devices, and %s is the card", d, c.card)
				}
				if d.Card {
					cards[d.Namespace] = true
				}
			}
			for _, m := range s.lab.Machines {
				if cards[m.Namespace] == c.inSwitch {
					t.Errorf("cards are in %v; in the namespace of %s: %v", cards, m.Name, !c.inSwitch)
				}
			}
			if len(cards) != len(s.lab.Machines) {
				t.Errorf("cards are in %v, want one for each machine", cards)
			}
		})
	}
}

// In namespaces that somebody else made, what does not carry the path is nobody's to
// touch.
func TestSpacesOfAttached(t *testing.T) {
	h := testHost(t, deaf{})
	c := testenv.Containers(t, 1400)
	testenv.InNetns(t, c[0].In.Path(), func() error {
		eth0, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, l := range []netlink.Link{
			&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "theirs"}, PeerName: "theirs-too"},
			&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "over"}, VxlanId: 7, VtepDevIndex: eth0.Attrs().Index, Port: 4789},
		} {
			if err := netlink.LinkAdd(l); err != nil {
				return err
			}
			if err := netlink.LinkSetUp(l); err != nil {
				return err
			}
		}
		links, err := netlink.LinkList()
		for device, want := range map[string][]string{"eth0": {"eth0"}, "over": {"over", "eth0"}, "theirs": {"theirs"}} {
			var got []string
			for _, l := range host.LowerDevices(links, device) {
				got = append(got, l.Attrs().Name)
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%s stands on %q, want %q", device, got, want)
			}
		}
		return err
	})
	q := Request{Paths: []string{"attach:from=ns:" + c[0].In.Name() + ",to=ns:" + c[1].In.Name()}, NoHost: true, NoCopy: true, Loads: []string{"tcp_lat"}, Slice: 5e6, Rounds: 2, Wait: true}
	s, err := Open(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spaces, err := s.Namespaces()
	if err != nil || len(spaces.Machines) != 0 || len(spaces.Pods) != 2 || len(spaces.Devices) != 2 {
		t.Fatalf("%+v, %v", spaces, err)
	}
	for _, d := range spaces.Devices {
		if d.Name != "eth0" {
			t.Errorf("%+v does not lie on the path", d)
		}
	}
}

// What is not there any more is told of in the record, and is tried anew.
func TestGaugeOfCutPath(t *testing.T) {
	h := testHost(t, deaf{})
	q := Request{Paths: []string{"routed"}, NoHost: true, NoCopy: true, Loads: []string{"tcp_lat"}, Slice: 5e6, Rounds: 2, Wait: true}
	s, err := Open(t.Context(), resolve(t, q), h)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g, err := s.Gauge(resolve(t, q))
	if err != nil {
		t.Fatal(err)
	}
	pod := s.lab.Arms[0].Ends[0][0]
	testenv.InNetns(t, pod.Namespace, func() error {
		link, err := netlink.LinkByName(pod.Device)
		if err != nil {
			return err
		}
		return netlink.LinkSetDown(link)
	})
	for range 2 {
		rec, err := g.Measure(t.Context())
		if err != nil || len(rec.Warnings) == 0 || len(rec.Slices) > 0 && rec.Slices[0].Failed == "" {
			t.Errorf("cut: %d slices, warnings %v, error %v", len(rec.Slices), rec.Warnings, err)
		}
	}
}
