package audit_test

import (
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// Established flows pass the rules of policy engines by the state of their connection. Where an engine
// has a set say which hosts may send tunnel packets, each of those asks the set.
func TestRulingsOfPolicies(t *testing.T) {
	pod := netip.MustParseAddr("10.244.1.2")
	for _, e := range fastpathtest.PolicyEngines() {
		n := netnsWithSets(t, e.IPSets)
		e.Load(t, n, e.Rules(pod, "veth0"))
		for _, port := range []uint16{0, 4789} {
			got := auditRuleset(t, n, port)
			if got.PerPacket != "" || got.ReadsConnMark || got.IPSets != nil {
				t.Errorf("%s with port %d: %+v", e.Name, port, got)
			}
			// kube-router has the host's own packets meet the rules of pods.
			var strangers audit.Strangers
			if port != 0 && strings.HasPrefix(e.Name, "kube-router") {
				strangers.Addresses = []netip.Addr{pod}
			}
			if !got.Strangers.Equal(strangers) {
				t.Errorf("%s with port %d: takes no tunnel to have %v, want %v", e.Name, port, got.Strangers, strangers)
			}
		}
		// Felix marks what a policy has accepted, and leaves the mark.
		if got := auditRuleset(t, n, 4789).LeavesMark; got != strings.HasPrefix(e.Name, "Felix") {
			t.Errorf("%s: leaves marks: %v", e.Name, got)
		}
		if got := auditRuleset(t, n, 0).PerPacketUnreplied; got == "" {
			t.Errorf("%s: flows without a reply are taken for established", e.Name)
		}
		if e.Name != "Felix" {
			continue
		}
		e.Load(t, n, fastpathtest.Felix{Prefix: "veth", Port: 7777, VXLAN: true, Pods: []fastpathtest.FelixPod{{Device: "veth0", Policy: true}}}.Rules())
		if got := auditRuleset(t, n, 4789); got.PerPacket != "" || !slices.Equal(got.IPSets, []string{fastpathtest.FelixHosts}) {
			t.Errorf("with VXLAN: perPacket %q, depends on %q", got.PerPacket, got.IPSets)
		}
	}
}

// Felix with nftables finds the chains of many pods by verdict maps, and asks sets of nftables. Established flows
// pass these rules, too, in both of its ways to let them go on, and over IPv6. What cannot be proven is named.
func TestRulingsOfFelixTable(t *testing.T) {
	n := testenv.Netns(t)
	overIPv6 := strings.NewReplacer("table ip ", "table ip6 ", "ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr", "ipv4_addr", "ipv6_addr")
	four := audit.Overlay{Protocol: unix.IPPROTO_UDP, Port: 4789, Wire: "wire"}
	six := audit.Overlay{Family: audit.IPv6, Protocol: unix.IPPROTO_UDP, Port: 4789, Wire: "wire", ByDevice: true}
	felix := fastpathtest.Felix{Prefix: "cali", VXLAN: true, Port: 7777}
	for _, device := range []string{"cali1a", "cali1b", "cali2c"} {
		felix.Pods = append(felix.Pods, fastpathtest.FelixPod{Device: device, Policy: true})
	}
	load := func(rules string) {
		t.Helper()
		testenv.Must(t, testenv.Load(t, n, rules, "nft", "-f", "-"))
	}
	for _, felix.Returns = range []bool{true, false} {
		load(felix.Table())
		load(overIPv6.Replace(felix.Table()))
		for _, of := range []audit.Overlay{four, six} {
			got := auditOverlay(t, n, of)
			if got.PerPacket != "" || got.ReadsConnMark || got.IPSets != nil || !got.LeavesMark || got.PerPacketUnreplied == "" || got.Flowtable != "" {
				t.Errorf("%v, returning: %v: %+v", of.Family, felix.Returns, got)
			}
		}
	}
	for _, c := range []struct{ name, add, perPacket string }{
		{"a limit of a pod's packets", "insert rule ip calico filter-cali-tw-cali1a counter limit rate over 100/second burst 5 packets drop", "ip calico filter-cali-tw-cali1a: limit"},
		{"a DSCP of a pod", "add rule ip calico mangle-cali-egress-dscp ip saddr 10.244.1.2 counter ip dscp set 20", "ip calico mangle-cali-egress-dscp: writes packets"},
		{"a policy for the host", hostPolicy, ""},
		{"one that counts", "add rule ip calico filter-cali-to-host-endpoint limit rate 10/second counter drop", "ip calico filter-cali-to-host-endpoint: limit"},
		{"a bridge's rules", "table bridge t { chain first { type filter hook forward priority 0; ip saddr 192.0.2.1 drop; }; }", ""},
	} {
		load(felix.Table())
		load(c.add)
		if got := auditOverlay(t, n, four).PerPacket; got != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.name, got, c.perPacket)
		}
	}
}

// hostPolicy is what Felix adds for a policy of the host itself: what its processes send meets it behind translations
// alone if their destination was translated, and else ahead of them.
const hostPolicy = `
	add chain ip calico filter-cali-th-wire
	add chain ip calico mangle-cali-th-wire
	add rule ip calico filter-cali-th-wire ct state related,established counter accept
	add rule ip calico filter-cali-th-wire ct state invalid counter drop
	add rule ip calico filter-cali-th-wire ip daddr @cali40s-clients counter meta mark set mark or 0x10000
	add rule ip calico filter-cali-th-wire meta mark & 0x10000 == 0x10000 counter return
	add rule ip calico filter-cali-th-wire counter drop
	add rule ip calico mangle-cali-th-wire ip daddr @cali40s-clients counter drop
	add rule ip calico filter-cali-to-host-endpoint oifname "wire" counter goto filter-cali-th-wire
	add rule ip calico mangle-cali-to-host-endpoint oifname "wire" counter goto mangle-cali-th-wire
`

// Felix swaps its chains in place, beside the rules of others. Established flows pass those of many pods,
// whose devices it finds by their first character, and what has gone leaves nothing.
func TestRulingsOfManyPods(t *testing.T) {
	n := netnsWithSets(t, fastpathtest.FelixSets)
	load := func(rules string) {
		t.Helper()
		testenv.Must(t, testenv.Load(t, n, rules, "iptables-nft-restore", "--noflush"))
	}
	rules := func() string {
		out := new(strings.Builder)
		testenv.InNetns(t, n.Path(), func() error {
			cmd := exec.Command("iptables-nft-save")
			cmd.Stdout = out
			return cmd.Run()
		})
		return out.String()
	}
	load("*filter\n-A FORWARD -s 192.0.2.1 -j DROP\nCOMMIT\n")
	felix := fastpathtest.Felix{Prefix: "cali", VXLAN: true, Port: 7777}
	load(felix.Install())
	for _, device := range []string{"cali1a", "cali1b", "cali2c"} {
		felix.Pods = append(felix.Pods, fastpathtest.FelixPod{Device: device, Policy: true})
	}
	load(felix.Update())
	if got := auditRuleset(t, n, 4789); got.PerPacket != "" || !slices.Equal(got.IPSets, []string{fastpathtest.FelixHosts}) {
		t.Errorf("with many pods: %+v", got)
	}
	felix.OldDevices, felix.Pods = []string{"cali1a", "cali2c"}, felix.Pods[1:2]
	load(felix.Update())
	for text, want := range map[string]bool{
		"-g cali-from-wl-dispatch-1": false, ":cali-to-wl-dispatch-1": false, "cali1a": false, "cali2c": false,
		"-A cali-to-wl-dispatch -o cali1b -g cali-tw-cali1b": true, "-A FORWARD -s 192.0.2.1/32 -j DROP": true,
	} {
		if got := rules(); strings.Contains(got, text) != want {
			t.Errorf("%q is there: %v; the rules are\n%s", text, !want, got)
		}
	}
}

// netnsWithSets makes a network namespace with ipsets.
func netnsWithSets(t *testing.T, kinds map[string]string) *netcfg.Namespace {
	t.Helper()
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() (err error) {
		for name, kind := range kinds {
			err = errors.Join(err, netlink.IpsetCreate(name, kind, netlink.IpsetCreateOptions{Family: netlink.FAMILY_V4}))
		}
		return err
	})
	return n
}
