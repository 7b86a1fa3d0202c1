package compare

import (
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// withSpares are two machines with a spare card each, which has what a card may have.
func withSpares(t *testing.T) (m [2]*testenv.SSHMachine, before [2]string) {
	t.Helper()
	m = joined(t)
	testenv.JoinSpare(t, m[0], m[1])
	for i, m := range m {
		m.Do(t, "sh", "-ec", `ip link set eth1 alias spare mtu 1480 txqueuelen 77 promisc on
ip link property add dev eth1 altname enp9s0
ip addr add 2001:db8::1/64 dev eth1 nodad
ip route add 203.0.113.0/24 via 198.51.100.77
ip neigh add 198.51.100.77 lladdr 02:00:00:00:00:77 dev eth1
echo 2 >/proc/sys/net/ipv4/conf/eth1/rp_filter; echo 0 >/proc/sys/net/ipv6/conf/eth1/accept_ra
ethtool -K eth1 tso off >/dev/null`)
		before[i] = spare(t, m)
	}
	return m, before
}

// spare is all that a machine tells of its spare card, but for what passes.
func spare(t *testing.T, m *testenv.SSHMachine) string {
	t.Helper()
	text := m.Output(t, "sh", "-c", `(ip -d link show dev eth1; ip addr show dev eth1) | sed 's/link-netnsid [0-9]*//'; (ip route show table all dev eth1; ip -6 route show table all dev eth1) | grep -v "table local"
ip neigh show dev eth1 nud permanent; ethtool -k eth1; cd /proc/sys/net; grep -r . ipv?/conf/eth1 ipv?/neigh/eth1 2>/dev/null; true`)
	for _, passing := range []string{" tentative", " linkdown", "NO-CARRIER,", ",LOWER_UP", "state LOWERLAYERDOWN", "state UP", "<M-DOWN>", "state DOWN"} {
		text = strings.ReplaceAll(text, passing, "")
	}
	return text
}

// givenBack waits until a machine has its spare card as it was, and nothing of ours.
func givenBack(t *testing.T, m *testenv.SSHMachine, before string) {
	t.Helper()
	noAgent(t, m)
	has := func() bool {
		return len(m.Devices(t, "lo", "eth0", "tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0")) == 1
	}
	for end := time.Now().Add(givenUpAfter); !has() && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	after := ""
	for end := time.Now().Add(givenUpAfter); has() && after != before && time.Now().Before(end); after = spare(t, m) {
		time.Sleep(20 * time.Millisecond)
	}
	if after != before {
		t.Errorf("the card of %s has changed:\n%s", m.Name, testenv.Difference(before, after))
	}
	nothingLeft(t, m, "eth1")
	h, err := journal.ReadHistory(m.Root() + journal.Folder)
	if err != nil || len(h.Txns) == 0 {
		t.Errorf("the journal of %s: %v, %d transactions", m.Name, err, len(h.Txns))
	}
	for _, txn := range h.Txns {
		if txn.Open() {
			t.Errorf("transaction %d of %s is open", txn.ID, m.Name)
		}
	}
}

// onSpares asks for paths on the spare cards.
func onSpares(t *testing.T, m [2]*testenv.SSHMachine, paths ...string) Request {
	t.Helper()
	q := onCards(t, m, paths...)
	q.Remote.Dev, q.Remote.Take = "eth1", true
	return q
}

// A card that is taken is the wire of every path, and comes back as it was.
func TestPathsOnTakenCards(t *testing.T) {
	m, before := withSpares(t)
	rec, _, err := Do(t.Context(), resolve(t, onSpares(t, m, "host", "routed", "vxlan", "bgp", "macvlan", "vxlan+fast", "vxlan:tunnels=2")), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	if rec.Plan.Wire != "eth1 itself, mtu=1480" {
		t.Errorf("the wire is %q", rec.Plan.Wire)
	}
	for i, m := range m {
		givenBack(t, m, before[i])
	}
}

// Every driver is carried by cards that are taken, or refused with the reason before anything is
// changed: what this kernel lacks, and what takes machines of one host.
func TestEveryPathOnTakenCards(t *testing.T) {
	m, before := withSpares(t)
	for _, m := range m {
		m.Install(t, testenv.Program(t)[0]) // it is not to be copied for each that is refused
	}
	built, refused := []string{"host"}, []string{}
	for _, d := range path.Table {
		specs := []string{d.Name}
		if slices.ContainsFunc(d.Options, func(o path.Option) bool { return o.Name == "datapath" }) {
			specs = append(specs, d.Name+":datapath=netdev")
		}
		for _, spec := range specs {
			if spec == baseline || spec == "attach" {
				continue
			}
			arms, err := path.Arms([]string{spec}, nil)
			testenv.Must(t, err)
			if d.OneHost || arms[0].Supported() == feature.No {
				refused = append(refused, spec)
			} else {
				built = append(built, spec)
			}
		}
	}
	refuse := func(spec string) *verr.Error {
		t.Helper()
		q := onSpares(t, m, baseline, spec)
		forGuest(&q)
		r, err := q.Resolve()
		if err == nil {
			_, _, err = Do(t.Context(), r, Host{Watch: deaf{}})
		}
		var told *verr.Error
		if !errors.As(err, &told) || told.Code != verr.Usage && told.Code != verr.Missing || told.Reason == "" || told.Hint == "" {
			t.Fatalf("%s: %v, want a refusal with the reason and what to do", spec, err)
		}
		t.Logf("%s is refused: %v", spec, err)
		return told
	}
	for _, spec := range refused {
		refuse(spec)
	}
	if file, err := exec.LookPath("ovs-vswitchd"); err == nil { // one machine lacks what the other has
		m[1].Do(t, "mount", "--bind", "/dev/null", file)
		if told := refuse("ovs-vlan:datapath=netdev"); !strings.Contains(told.Summary, "on machine b") {
			t.Errorf("it does not name machine b: %v", told)
		}
		m[1].Do(t, "umount", file)
	}
	unchanged(t, m, before)
	t.Logf("measured: %v", built)
	q := onSpares(t, m, built...)
	forGuest(&q)
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	testenv.Must(t, err)
	measured(t, rec)
	for i, m := range m {
		givenBack(t, m, before[i])
	}
}

// Whatever is killed, the cards come back: at once, or where nothing of ours is left to do it,
// with the next run.
func TestTakenCardsAfterKill(t *testing.T) {
	for name, kill := range map[string]func(m *testenv.SSHMachine){
		"agent": func(m *testenv.SSHMachine) { killAll(m, "agent --stdio") },
		"ssh":   func(m *testenv.SSHMachine) { killAll(m, "sshd") },
		"all": func(m *testenv.SSHMachine) {
			killAll(m, "agent --watch")
			killAll(m, "agent --stdio")
		},
	} {
		t.Run(name, func(t *testing.T) {
			m, before := withSpares(t)
			q := onSpares(t, m, "host", "vxlan")
			q.Series, q.Rounds, q.Loads = 100, 10, []string{"tcp_lat"}
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: func() { kill(m[1]) }}})
			if verr.Code(err) != verr.Partial || rec == nil || len(rec.Slices) == 0 {
				t.Errorf("error %v", err)
			}
			givenBack(t, m[0], before[0])
			if name == "all" {
				noAgent(t, m[1])
				if left := m[1].Devices(t, "lo", "eth0"); strings.Contains(strings.Join(left, " "), "eth1") {
					t.Error("the card is back, and nobody could have brought it")
				}
				if _, _, err := Do(t.Context(), resolve(t, onCards(t, m, "host")), Host{Watch: deaf{}}); err != nil {
					t.Error(err)
				}
			}
			givenBack(t, m[1], before[1])
		})
	}
}

// A card that is in use, or could not come back as it was, is refused with the machine's name,
// and nothing is changed.
func TestTakenCardsRefused(t *testing.T) {
	m, before := withSpares(t)
	for name, c := range map[string]struct{ do, undo, want string }{
		"default": {"ip route add default via 198.51.100.7", "ip route del default", "default route"},
		"port":    {"ip link add br0 type bridge; ip link set eth1 master br0", "ip link del br0", "port of"},
		"lent":    {"ip addr add 198.51.100.9/24 dev eth1 valid_lft 600 preferred_lft 600", "ip addr del 198.51.100.9/24 dev eth1", "has a lifetime"},
	} {
		m[1].Do(t, "sh", "-ec", c.do)
		_, _, err := Do(t.Context(), resolve(t, onSpares(t, m, "host", "vxlan")), Host{Watch: deaf{}})
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "on machine b") {
			t.Errorf("%s: %v", name, err)
		}
		m[1].Do(t, "sh", "-ec", c.undo)
	}
	// So is one by which somebody is connected, who may be the one that gives orders.
	var l net.Listener
	testenv.InNetns(t, m[1].Netns(), func() (err error) { l, err = net.Listen("tcp", "0.0.0.0:22"); return err })
	defer l.Close()
	var c net.Conn
	testenv.InNetns(t, m[0].Netns(), func() (err error) { c, err = net.Dial("tcp", "198.51.100.2:22"); return err })
	defer c.Close()
	_, _, err := Do(t.Context(), resolve(t, onSpares(t, m, "host", "vxlan")), Host{Watch: deaf{}})
	if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "a connection by TCP uses it") {
		t.Errorf("connected: %v", err)
	}
	unchanged(t, m, before)
}

// unchanged wants the spare cards of machines to be as they were, and nothing in their journals.
func unchanged(t *testing.T, m [2]*testenv.SSHMachine, before [2]string) {
	t.Helper()
	for i, m := range m {
		noAgent(t, m)
		if after := spare(t, m); after != before[i] {
			t.Errorf("the card of %s has changed:\n%s", m.Name, testenv.Difference(before[i], after))
		}
		if h, err := journal.ReadHistory(m.Root() + journal.Folder); err != nil || len(h.Txns) > 0 {
			t.Errorf("the journal of %s: %v, %+v", m.Name, err, h.Txns)
		}
	}
}
