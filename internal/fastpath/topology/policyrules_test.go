package topology_test

import (
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// Routes and policy rules that treat packets of one flow differently are found, in any table.
func TestPerPacketRoutes(t *testing.T) {
	for _, c := range []struct{ name, more, perPacket string }{
		{"none", "", ""},
		{"rule by TOS", "ip rule add tos 0x08 blackhole pref 100", "policy rule 100 depends on the TOS"},
		{"rule by TOS and more", "ip rule add from 10.0.1.2 tos 0x10 lookup 100 pref 0", "policy rule 0 depends on the TOS"},
		{"rule by what is not the TOS", "ip rule add not tos 0x10 lookup 100 pref 99", "policy rule 99 depends on the TOS"},
		{"rule by the metadata of a tunnel", "ip rule add tun_id 7 lookup 100 pref 98", "policy rule 98 depends on attribute 12"},
		{"rules by what a flow shares", `
			ip rule add from 10.0.1.0/24 to 10.0.2.0/24 iif br0 ipproto tcp sport 80 dport 1000-2000 lookup 100
			ip rule add fwmark 0x80/0x80 lookup main
			ip rule add oif w0 uidrange 0-1000 lookup 70000
			ip rule add pref 500 goto 32766
			ip rule add lookup main suppress_prefixlength 0 suppress_ifgroup 3
			ip rule add to 10.0.3.0/24 realms 3/4 protocol static prohibit`, ""},
		{"rule of IPv6", "ip -6 rule add tos 0x10 lookup 100", ""},
		{"route", "ip route add blackhole 10.0.2.0/24 tos 0x08", "the route to 10.0.2.0/24 in table 254 depends on the TOS"},
		{"route of another table", "ip route add default dev w0 tos 0x10 table 70000", "the route to 0.0.0.0/0 in table 70000 depends on the TOS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, _ := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+c.more)
			if got := topologyOf(t, m).PerPacket; got != c.perPacket {
				t.Errorf("per packet: %q, want %q", got, c.perPacket)
			}
		})
	}
}

// Selectors that the installed ip command cannot write are found, too.
func TestPerPacketSelectors(t *testing.T) {
	for _, c := range []struct {
		tos   byte
		attrs []uint16
		by    string
	}{
		{0, []uint16{unix.FRA_PRIORITY, unix.FRA_TABLE, unix.FRA_FWMARK, unix.FRA_SPORT_RANGE, 28, 29}, ""},
		{0x20, []uint16{unix.FRA_PRIORITY, 26}, "the TOS"},
		{0, []uint16{unix.FRA_PRIORITY, 25}, "the DSCP"},
		{0, []uint16{30, unix.FRA_PRIORITY, 25}, "the DSCP"},
		{0, []uint16{26, unix.FRA_PRIORITY}, "attribute 26"},
		{0, []uint16{unix.FRA_PRIORITY, 31}, "attribute 31"},
	} {
		message := []byte{unix.AF_INET, 0, 0, c.tos, 0, 0, 0, 1, 0, 0, 0, 0}
		for _, kind := range c.attrs {
			message = append(message, nl.NewRtAttr(int(kind), nl.Uint32Attr(77)).Serialize()...)
		}
		by, number, err := topology.PerPacketSelector(message)
		if by != c.by || number != 77 || err != nil {
			t.Errorf("rule %d with TOS %#x and attributes %v goes by %q (%v), want %q", number, c.tos, c.attrs, by, err, c.by)
		}
		if _, _, err := topology.PerPacketSelector(message[:8]); err == nil {
			t.Error("half a rule was read")
		}
	}
}

// An unknown action or flag of a policy rule is refused by number.
func TestUnprovenRuleActions(t *testing.T) {
	for _, c := range []struct {
		action byte
		flags  byte
		by     string
	}{{1, 0, ""}, {2, 0x1f, ""}, {8, 2, ""}, {4, 0, "action 4"}, {9, 0, "action 9"}, {0, 0, "action 0"}, {1, 0x80, "flags 0x80"}} {
		message := []byte{unix.AF_INET, 0, 0, 0, 0, 0, 0, c.action, c.flags, 0, 0, 0}
		if by, _, err := topology.PerPacketSelector(message); by != c.by || err != nil {
			t.Errorf("a rule of action %d and flags %#x goes by %q (%v), want %q", c.action, c.flags, by, err, c.by)
		}
	}
}
