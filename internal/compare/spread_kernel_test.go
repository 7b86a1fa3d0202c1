package compare

import (
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// What this machine's kernel lacks is built on cards under another one.
func TestCardsUnderKernel(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, agenttest.DefaultKernel, func(t *testing.T, k kernel.Kernel) {
		said, code := agenttest.RunInGuest(t, vm.Config{Kernel: k, Memory: 2 << 10}, agenttest.RunArgs("TestTagsOnCards|TestIPVLANCards|TestEveryPathOnTakenCards"))
		if code != 0 {
			t.Errorf("it ended with code %d:\n%s", code, said)
		}
	})
}

// forGuest makes a request one that an emulated CPU carries out in a minute or two: it has more
// time for a slice, and less to do.
func forGuest(q *Request) {
	if agenttest.InGuest() {
		q.Slice, q.Remote.Options.Limit = 50*time.Millisecond, 5*time.Minute
		q.Series, q.Loads = 1, q.Loads[:1]
	}
}

// joinedInGuest are two machines in the guest. They have the program, which an emulated CPU copies
// by ssh for half a minute, each time.
func joinedInGuest(t *testing.T) [2]*testenv.SSHMachine {
	t.Helper()
	if !agenttest.InGuest() {
		t.Skip("is run under another kernel by TestCardsUnderKernel")
	}
	m := joined(t)
	for _, m := range m {
		m.Install(t, testenv.Program(t)[0])
	}
	return m
}

// Tags pass a card, and so do tunnels that only some kernels have.
func TestTagsOnCards(t *testing.T) {
	m := joinedInGuest(t)
	q := onCards(t, m, "host", "qinq:ids=2", "vlan", "ipvlan", "geneve", "gre", "ipip", "ovs-qinq:ids=2", "ovs-geneve")
	forGuest(&q)
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	for _, m := range m {
		nothingLeft(t, m)
	}
}

// Where a card may have one MAC, ipvlans carry what is in tunnels, and
// what has pods in the card's network is refused.
func TestIPVLANCards(t *testing.T) {
	m := joinedInGuest(t)
	q := onCards(t, m, "host", "vxlan", "geneve")
	q.Remote.Dev = "eth0,ipvlan"
	forGuest(&q)
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	q = onCards(t, m, "host", "vlan")
	q.Remote.Dev = "eth0,ipvlan"
	forGuest(&q)
	if _, err := q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "by ipvlan") {
		t.Errorf("vlan on an ipvlan: %v", err)
	}
	for _, m := range m {
		nothingLeft(t, m)
	}
}
