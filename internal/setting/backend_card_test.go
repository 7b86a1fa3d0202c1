package setting_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// furnish gives a card what a card may have, and the kernel takes away.
const furnish = `set -e
ip link set veth0 alias "my card" address 02:00:00:00:00:07 txqueuelen 77 mtu 1400
ip link property add dev veth0 altname enp7s0
ip link set veth1 up
sysctl -qw net.ipv6.conf.veth0.stable_secret=2001:db8::5 net.ipv6.conf.veth0.accept_dad=0 net.ipv6.conf.veth0.accept_ra=0 net.ipv4.conf.veth0.rp_filter=2 net.ipv4.neigh.veth0.gc_stale_time=99
ip link set veth0 up promisc on
ip addr add 192.0.2.1/24 dev veth0 label veth0:a
ip addr add 192.0.2.9/24 brd + dev veth0
ip addr add 198.51.100.1/32 peer 198.51.100.2 dev veth0 metric 70
ip addr add fe80::7/64 dev veth0 nodad
ip addr add 2001:db8::1/64 dev veth0 nodad
ip addr add 2001:db8::2/64 dev veth0 nodad noprefixroute
ip route add 203.0.113.0/24 via 192.0.2.77 dev veth0 src 192.0.2.9 mtu 1300
ip route add 203.0.114.0/24 via 203.0.113.5 dev veth0 onlink table 77
ip route add unreachable 203.0.115.0/24
ip -6 route add 2001:db8:7::/64 via fe80::1 dev veth0 metric 5
ip route append 203.0.113.0/24 via 192.0.2.76 dev veth0
ip route add local 203.0.116.0/24 dev veth0
for i in $(seq 61 77); do ip neigh add 192.0.2.$i lladdr 02:00:00:00:00:77 dev veth0; ip neigh add 2001:db8::$i lladdr 02:00:00:00:00:78 dev veth0; done
ip neigh add proxy 192.0.2.200 dev veth0
ethtool -K veth0 tso off >/dev/null
tc qdisc replace dev veth0 root pfifo limit 500
echo 1 > /sys/class/net/veth0/queues/rx-0/rps_cpus
`

// furniture prints all that.
const furniture = `ip -d link show dev veth0; ip addr show dev veth0 | sed "s, stable-privacy,,"; ip route show table all dev veth0; ip -6 route show table all dev veth0; ip neigh show dev veth0 nud permanent | sort
ip neigh show proxy; ethtool -k veth0; tc qdisc show dev veth0; cat /sys/class/net/veth0/queues/rx-0/rps_cpus
sysctl net.ipv4.conf.veth0 net.ipv6.conf.veth0 net.ipv4.neigh.veth0 net.ipv6.neigh.veth0 2>/dev/null; true`

// scriptOutput is what a script prints in a namespace, with a /sys of it.
func scriptOutput(t *testing.T, n *netcfg.Namespace, script string) string {
	t.Helper()
	var said strings.Builder
	cmd := exec.Command("ip", "netns", "exec", filepath.Base(n.Path()), "sh", "-c", script)
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", script, err, &said)
	}
	return string(text)
}

// cardAndMove is the setting of the card veth0 of a namespace, and its value as wire0 in another.
func cardAndMove(t *testing.T, from, to *netcfg.Namespace) (card setting.Setting, there setting.Value) {
	t.Helper()
	scope, err := setting.DeviceScope(from.Path(), "veth0")
	testenv.Must(t, err)
	card, err = setting.CardSetting(scope)
	testenv.Must(t, err)
	there, err = setting.MovedCard(to.Name(), "wire0")
	testenv.Must(t, err)
	return card, there
}

// A card that was moved to another namespace comes back as it was, whatever happened to it there
// or on the way, and whoever brings it back.
func TestCardComesBackAsItWas(t *testing.T) {
	for name, meanwhile := range map[string]string{
		"untouched": "",
		"used":      "ip link set wire0 mtu 1300 txqueuelen 5 up; ip addr add 10.200.0.1/24 dev wire0; ip link add link wire0 name up0 type macvlan; ethtool -K wire0 tso on",
		// Whoever brought it back was killed after the first step, or the kernel did that.
		"back, and bare":     "ip link set wire0 netns HOME",
		"back, and half set": "ip link set wire0 netns HOME; ip -n HOME addr add 192.0.2.1/24 dev wire0 label veth0:a; ip -n HOME link set wire0 name veth0 up",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := spaces(t)
			scriptOutput(t, a, furnish)
			before, folder := scriptOutput(t, a, furniture), filepath.Join(t.TempDir(), "journal")
			open := func() *journal.Journal {
				j, err := journal.Open(journal.Options{Folder: folder, Settings: setting.NewSettings(setting.Backends("")...)})
				testenv.Must(t, err)
				return j
			}
			j := open()
			card, there := cardAndMove(t, a, b)
			tx, err := j.Begin(0)
			testenv.Must(t, err)
			_, err = tx.Set("card", setting.Write{Setting: card, Value: there})
			testenv.Must(t, err)
			if text := scriptOutput(t, b, "ip -br link"); !strings.Contains(text, "wire0") {
				t.Fatalf("the card is not there: %s", text)
			}
			j.Close()
			scriptOutput(t, b, strings.ReplaceAll(meanwhile, "HOME", a.Name()))

			j = open()
			outcomes, err := j.Undo(nil, journal.UndoOptions{})
			testenv.Must(t, err)
			for _, o := range outcomes {
				testenv.Must(t, o.Err)
			}
			j.Close()
			if after := scriptOutput(t, a, furniture); after != before {
				t.Errorf("the card has changed:\n%s", testenv.Difference(before, after))
			}
		})
	}
}

// What could not be restored is named, and such a card does not move.
func TestCardThatCannotComeBack(t *testing.T) {
	for script, why := range map[string]string{
		"ip addr add 192.0.2.1/24 dev veth0 valid_lft 600 preferred_lft 600":                                                "address 192.0.2.1/24 has a lifetime",
		"ip addr add 192.0.2.1/24 dev veth0; ip route add 203.0.113.0/24 nexthop via 192.0.2.2 nexthop via 192.0.2.3":       "route 203.0.113.0/24 has several next hops",
		"ip addr add 192.0.2.1/24 dev veth0 preferred_lft 0":                                                                "address 192.0.2.1/24 is deprecated",
		"ip addr add 2001:db8::1/64 dev veth0 nodad preferred_lft 0":                                                        "address 2001:db8::1/64 is deprecated",
		"tc qdisc add dev veth0 clsact":                                                                                     "filters",
		"ip addr add 2001:db8::1/64 dev veth0 nodad; ip -6 route add 2001:db8:7::/64 via 2001:db8::2 dev veth0 expires 600": "has a lifetime",
	} {
		a, b := spaces(t)
		scriptOutput(t, a, "set -e; ip link set veth1 up; ip link set veth0 up;"+script)
		card, there := cardAndMove(t, a, b)
		obstacles, err := setting.CardObstacles(card)
		testenv.Must(t, err)
		if !strings.Contains(strings.Join(obstacles, "; "), why) {
			t.Errorf("%s: obstacles are %q", script, obstacles)
		}
		if err := setting.NewSettings(setting.Backends("")...).Write(card, there); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", script, err)
		}
		if text := scriptOutput(t, b, "ip -br link"); strings.Contains(text, "wire0") {
			t.Errorf("%s: the card has moved", script)
		}
	}
}

// The settings of a card are those of its device, and the sysctls with its name.
func TestOfCard(t *testing.T) {
	a, b := spaces(t)
	in := func(n *netcfg.Namespace, device string) setting.Scope {
		scope, err := setting.DeviceScope(n.Path(), device)
		testenv.Must(t, err)
		return scope
	}
	card, err := setting.CardSetting(in(a, "veth0"))
	testenv.Must(t, err)
	for _, c := range []struct {
		of   setting.Setting
		want bool
	}{
		{card, true},
		{setting.Setting{Backend: "ring", Scope: in(a, "veth0")}, true},
		{setting.Setting{Backend: "ring", Scope: in(a, "lo")}, false},
		{setting.Sysctl(in(a, "veth0"), "net/ipv4/conf/veth0/rp_filter"), true},
		{setting.Sysctl(in(a, "veth0"), "net/ipv6/neigh/veth0/gc_stale_time"), true},
		{setting.Sysctl(in(a, "veth0"), "net/ipv4/conf/all/rp_filter"), false},
		{setting.Sysctl(in(b, "lo"), "net/ipv4/conf/veth0/rp_filter"), false},
		{setting.Setting{Backend: "file", Key: "/etc/veth0"}, false},
	} {
		if got := setting.OfCard(c.of, card); got != c.want {
			t.Errorf("%s: %v", c.of, got)
		}
	}
}

// A device elsewhere with the mark of a card that is away is not taken for it, also when the card
// has gone: whoever may make devices in a container can give one that alias.
func TestFalseCardStaysWhereItIs(t *testing.T) {
	for name, c := range map[string]struct{ meanwhile, refused string }{
		"beside the card": {"", ""},
		"in its place":    {"ip link del wire0", "remove its alias"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := spaces(t)
			lab, _ := netcfg.LabOf(a.Name())
			w, err := netcfg.Owned(lab)
			testenv.Must(t, err)
			early, err := w.Create(w.Name("a-pod")) // its name comes before that of b
			testenv.Must(t, err)
			t.Cleanup(early.Close)
			addVeth(t, early)

			card, there := cardAndMove(t, a, b)
			settings := setting.NewSettings(setting.Backends("")...)
			home, err := settings.Read(card)
			testenv.Must(t, err)
			testenv.Must(t, settings.Write(card, there))
			mark := scriptOutput(t, b, "cat /sys/class/net/wire0/ifalias; "+c.meanwhile)
			scriptOutput(t, early, `ip link set veth0 alias "`+strings.TrimSpace(mark)+`"`)

			err = settings.Write(card.AfterWrite(there), home)
			if c.refused == "" {
				testenv.Must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("error %v", err)
			}
			if got := scriptOutput(t, early, "cat /sys/class/net/veth0/ifalias; ip link set veth0 alias ''"); got != mark {
				t.Errorf("the false card has the alias %q", got)
			}
		})
	}
}
