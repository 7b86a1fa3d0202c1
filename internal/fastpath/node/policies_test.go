package node_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"
	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// policySettle is how long after a change it has taken hold, unless the machine is busy: then it may
// take as long as settleLimit.
var policySettle, settleLimit = host.ScaleTimeout(200 * time.Millisecond), host.ScaleTimeout(5 * time.Second)

// Flows are carried where an engine enforces a network policy. When the policy changes, they meet the
// same fate as without the fast path: established ones go on if a policy begins to deny them, until
// their connection is forgotten, and end when their pod is cut off.
func TestEnablePolicies(t *testing.T) {
	for _, e := range fastpathtest.PolicyEngines() {
		t.Run(e.Name, func(t *testing.T) {
			wired := wirings[1] // kube-router routes pods behind a bridge by the wire
			if strings.HasPrefix(e.Name, "Felix") {
				wired = wirings[2]
			}
			c := newCluster(t, wired.node, wired.pod)
			c.addIPSets(t, e)
			e.Load(t, c.nodes[1], e.Rules(policyPod, "veth0"))
			c.answer(t)
			established := c.exchanges(t, podPort)
			plain := c.policyChanges(t, e, established, func() {})
			for i := range c.nodes {
				c.enable(t, i, "0")
			}
			c.forgetConnections(t) // nobody would say when those end that were there before
			exchange := func() error { return established(testenv.Timeout) }
			c.untilCarried(t, exchange)
			fast := c.policyChanges(t, e, established, func() { t.Helper(); c.untilCarried(t, exchange) })
			if plain != fast {
				t.Errorf("with the fast path\n%s\nand without\n%s", fast, plain)
			}
			want := "established passes, denied passes, another flow blocked, forgotten blocked, admitted passes, cut off blocked, back passes"
			if plain != want {
				t.Errorf("without the fast path\n%s\nwant\n%s", plain, want)
			}
		})
	}
}

var policyClient, policyPod = netip.MustParseAddr("10.244.1.2"), netip.MustParseAddr("10.244.2.2")

// policyChanges changes a policy, and says what becomes of an established flow at each change.
// passing is called when it passes.
func (c *cluster) policyChanges(t *testing.T, e fastpathtest.PolicyEngine, exchange func(time.Duration) error, passing func()) string {
	t.Helper()
	var said []string
	say := func(when, want string, exchange func(time.Duration) error) string {
		fate := settledFate(exchange, want)
		said = append(said, when+" "+fate)
		return fate
	}
	admit := func(on bool) { c.changeSet(t, e, e.ClientSet, policyClient, on) }
	after := func(when, want string) {
		t.Helper()
		if say(when, want, exchange) == passes {
			passing()
		}
	}
	admit(true)
	c.untilAnswered(t, exchange) // who answers may have just been started
	after("established", passes)
	admit(false)
	after("denied", passes)
	say("another flow", blocked, c.exchanges(t, podPort))
	testenv.InNetns(t, c.nodes[1].Path(), func() error {
		track, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		return errors.Join(track.Flush(), track.Close())
	})
	after("forgotten", blocked)
	admit(true)
	after("admitted", passes)
	e.Load(t, c.nodes[1], e.Cut(policyPod, "veth0"))
	after("cut off", blocked)
	e.Load(t, c.nodes[1], e.Rules(policyPod, "veth0"))
	admit(true) // kube-router's tables were made anew
	after("back", passes)
	return strings.Join(said, ", ")
}

// addIPSets makes the ipsets of an engine on the second node.
func (c *cluster) addIPSets(t *testing.T, e fastpathtest.PolicyEngine) {
	t.Helper()
	testenv.InNetns(t, c.nodes[1].Path(), func() (err error) {
		for name, kind := range e.IPSets {
			err = errors.Join(err, vnl.IpsetCreate(name, kind, vnl.IpsetCreateOptions{Family: vnl.FAMILY_V4}))
		}
		return err
	})
}

// changeSet adds an address to a set of an engine on the second node, or removes it.
func (c *cluster) changeSet(t *testing.T, e fastpathtest.PolicyEngine, set string, addr netip.Addr, add bool) {
	t.Helper()
	if len(e.IPSets) == 0 {
		command := map[bool]string{true: "add", false: "delete"}[add]
		testenv.Must(t, testenv.Load(t, c.nodes[1], fmt.Sprintf("%s element %s { %s }", command, set, addr), "nft", "-f", "-"))
		return
	}
	entry := &vnl.IPSetEntry{IP: net.IP(addr.AsSlice()), CIDR: 32, Replace: true}
	testenv.InNetns(t, c.nodes[1].Path(), func() error {
		if add {
			return vnl.IpsetAdd(set, entry)
		}
		return vnl.IpsetDel(set, entry)
	})
}

// Fates of flows.
const (
	passes  = "passes"
	blocked = "blocked"
)

// fateOf says what becomes of some datagrams of a flow.
func fateOf(exchange func(time.Duration) error) string {
	const tries = 5
	passed := 0
	for range tries {
		if exchange(host.ScaleTimeout(100*time.Millisecond)) == nil {
			passed++
		}
	}
	switch passed {
	case tries:
		return passes
	case 0:
		return blocked
	}
	return "passes in part"
}

// settledFate is the fate of a flow after a change: it is looked at again while it is not what is wanted.
func settledFate(exchange func(time.Duration) error, want string) (fate string) {
	time.Sleep(policySettle)
	for end := time.Now().Add(settleLimit); ; {
		if fate = fateOf(exchange); fate == want || time.Now().After(end) {
			return fate
		}
	}
}

// Where Felix has a set say which hosts may send tunnel packets, they are carried, and a host that is
// taken out of the set is cut off as without the fast path.
func TestEnableTunnelPolicy(t *testing.T) {
	felix := fastpathtest.Felix{Prefix: "veth", Port: 7777, VXLAN: true, Pods: []fastpathtest.FelixPod{{Device: "veth0", Policy: true}}}
	engines := fastpathtest.PolicyEngines()
	for _, c := range []struct {
		engine       fastpathtest.PolicyEngine
		rules, hosts string
	}{
		{engines[0], felix.Rules(), fastpathtest.FelixHosts},
		{engines[2], felix.Table(), fastpathtest.FelixTableHosts},
	} {
		t.Run(c.engine.Name, func(t *testing.T) { checkTunnelPolicy(t, c.engine, c.rules, c.hosts) })
	}
}

func checkTunnelPolicy(t *testing.T, e fastpathtest.PolicyEngine, rules, hosts string) {
	c := newCluster(t, wirings[3].node, wirings[3].pod)
	c.addIPSets(t, e)
	e.Load(t, c.nodes[1], rules)
	c.answer(t)
	established := c.exchanges(t, podPort)
	exchange := func() error { return established(testenv.Timeout) }
	member := func(on bool) { c.changeSet(t, e, hosts, netip.MustParseAddr("192.0.10.1"), on) }
	c.changeSet(t, e, e.ClientSet, policyClient, true)
	member(true)
	c.untilAnswered(t, established) // who answers may have just been started
	for _, carried := range []bool{false, true} {
		if carried {
			for i := range c.nodes {
				c.enable(t, i, "0")
			}
			c.forgetConnections(t)
			c.untilCarried(t, exchange)
		}
		fates := []string{settledFate(established, passes)}
		member(false)
		fates = append(fates, settledFate(established, blocked))
		member(true)
		fates = append(fates, settledFate(established, passes))
		if want := []string{passes, blocked, passes}; !slices.Equal(fates, want) {
			t.Errorf("carried %v: established, taken out and back: %q, want %q", carried, fates, want)
		}
		if carried {
			c.untilCarried(t, exchange)
		}
	}
}
