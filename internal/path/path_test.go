package path_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestTable(t *testing.T) {
	for _, d := range path.Table {
		if d.Name == "" || d.Summary == "" || d.Example == "" || d.Up == nil {
			t.Errorf("driver %q does not say all that its users need", d.Name)
		}
		if strings.ContainsAny(d.Name, "./ ") || strings.ToLower(d.Name) != d.Name {
			t.Errorf("driver %q: the name becomes part of a namespace's name", d.Name)
		}
	}
}

func TestArms(t *testing.T) {
	arms, err := path.Arms([]string{"host", "routed", "vxlan", "routed", "host"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"host", "routed", "vxlan", "routed.2", "host.2"}
	for i, arm := range arms {
		if arm.Name != want[i] || arm.Index != i {
			t.Errorf("arm %d is %s with index %d, want %s", i, arm.Name, arm.Index, want[i])
		}
	}
}

func TestUnknownPath(t *testing.T) {
	_, err := path.Arms([]string{"host", "vxlam"}, nil)
	if verr.Code(err) != verr.Usage {
		t.Fatalf("Arms = %v, want an error with code %d", err, verr.Usage)
	}
	for _, name := range path.Names() {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestRoom(t *testing.T) {
	for _, c := range []struct {
		arms, hosts int
		ok          bool
	}{{512, 2, true}, {513, 2, false}, {20, 50, true}, {21, 50, false}} {
		if err := path.CheckCapacity(c.arms, c.hosts); (err == nil) != c.ok || !c.ok && verr.Code(err) != verr.Usage {
			t.Errorf("%d arms on %d machines: %v, want room %v", c.arms, c.hosts, err, c.ok)
		}
	}
}

// What a user gives wrong is refused with the reason.
func TestBadSpec(t *testing.T) {
	for text, why := range map[string]string{
		"vxlan:vin=1":                  "no option \"vin\"",
		"vxlan:vni":                    "no value",
		"vxlan:vni=1,vni=2":            "given twice",
		"vxlan:vni=0":                  "not a number from 1 to 16777215",
		"vxlan:vni=16777216":           "not a number from 1 to 16777215",
		"vxlan:vni=16777215,tunnels=2": "the maximum of 16777215",
		"vxlan:port=65536":             "not a number",
		"vxlan:csum=maybe":             "not one of on, off",
		"vxlan:tunnels=17":             "not a number from 1 to 16",
		"vxlan:,":                      "an option is empty",
		"vxlan:":                       "an option is empty",
		"host:":                        "an option is empty",
		"vxlan:vni=5,":                 "an option is empty",
		"vxlan:vni=5,,port=1":          "an option is empty",
		"vxlan:=5":                     "no option \"\"",
		"vxlan:mtu=67":                 "not a number from 68",
		"host:mtu=1400":                "no option",
	} {
		_, _, err := path.ParseSpec(text)
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want a usage error that says %q", text, err, why)
		}
	}
}

// What was said comes back as it can be said again, without the defaults.
func TestSaid(t *testing.T) {
	arms, err := path.Arms([]string{"vxlan: tunnels=+5, port=08472,vni=007"}, []string{"five"})
	if err != nil {
		t.Fatal(err)
	}
	if said := arms[0].GivenOptions(); said != "vni=7,tunnels=5" || arms[0].Spec() != "vxlan:vni=7,tunnels=5" || arms[0].Name != "five" {
		t.Errorf("%s: %q, want five with vni=7,tunnels=5", arms[0].Name, said)
	}
	for _, name := range []string{"A", "a/b", "-a", "a.2", "x.ovs", strings.Repeat("x", 25), "host"} {
		if _, err := path.Arms([]string{"host", "vxlan"}, []string{"host", name}); verr.Code(err) != verr.Usage {
			t.Errorf("name %q: %v, want a usage error", name, err)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		spec       string
		wire, want int // 0: refused
	}{
		{"routed", 1500, 1500}, {"vxlan", 1500, 1450}, {"vxlan", 576, 526}, {"vxlan:mtu=1400", 1500, 1400},
		{"vxlan:mtu=1450", 1500, 1450}, {"vxlan:mtu=1451", 1500, 0}, {"vxlan", 117, 0}, {"routed:mtu=1501", 1500, 0},
	} {
		arms, err := path.Arms([]string{c.spec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := arms[0].MTU(c.wire)
		if got != c.want || (err == nil) != (c.want > 0) || err != nil && verr.Code(err) != verr.Usage {
			t.Errorf("%s on %d: %d, %v, want %d", c.spec, c.wire, got, err, c.want)
		}
	}
}

// A wider wire is offered only where it helps.
func TestMTUAdvice(t *testing.T) {
	for _, c := range []struct {
		spec string
		wire int
		do   string
	}{
		{"vxlan:mtu=1451", 1500, "give mtu=1450 or less, or --wire mtu=1501"},
		{"vxlan:mtu=65535", 65535, "give mtu=65485 or less; the path carries no more over any wire"},
		{"ovs-vxlan:datapath=netdev,port=internal,mtu=1451", 1500, "give mtu=1450 or less, or --wire mtu=1501"},
		{"ovs-vxlan:datapath=netdev,port=internal,mtu=1501", 9000, "give mtu=1500 or less; the path carries no more over any wire"},
		{"vxlan", 117, "give --wire mtu=118 or more"},
		{"ovn-underlay:datapath=netdev,lb=on,mtu=407", 1500, "give mtu=408 or more"},
		{"ovn-overlay:datapath=netdev,lb=on", 460, "give --wire mtu=466 or more"},
	} {
		arms, err := path.Arms([]string{c.spec}, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = arms[0].MTU(c.wire)
		var told *verr.Error
		if !errors.As(err, &told) || told.Code != verr.Usage || told.Hint != c.do {
			t.Errorf("%s on %d: %v, want the advice %q", c.spec, c.wire, err, c.do)
		}
	}
	for _, spec := range []string{"ovn-overlay:datapath=netdev,lb=off,mtu=100", "ovn-overlay:datapath=netdev,mtu=408"} {
		if arms, err := path.Arms([]string{spec}, nil); err != nil {
			t.Error(err)
		} else if _, err := arms[0].MTU(1500); err != nil {
			t.Error(err)
		}
	}
}
