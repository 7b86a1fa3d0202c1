package bgp

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
)

// table is what the protocol says at the moment: who is there, and what the
// best way to each block is. The library tells it from goroutines of its own.
type table struct {
	accepts func(netip.Prefix) bool
	changed chan struct{} // holds a token when something has changed since it was looked at

	up chan struct{} // likewise, when a session has come up

	mu    sync.Mutex
	peers []Peer
	fresh []netip.Addr                // of the neighbours whose session has come up
	best  map[netip.Prefix]netip.Addr // next hop of each block of others
}

func newTable(c *Config) *table {
	t := &table{
		accepts: c.accepts,
		changed: make(chan struct{}, 1),
		up:      make(chan struct{}, 1),
		best:    map[netip.Prefix]netip.Addr{},
	}
	for _, n := range c.Neighbours {
		t.peers = append(t.peers, Peer{Address: n.Address, State: sessionState(bgp.BGP_FSM_IDLE)})
	}
	return t
}

// look gives a copy of what is known.
func (t *table) look() (peers []Peer, best map[netip.Prefix]netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.peers), maps.Clone(t.best)
}

func (t *table) onBestPath(paths []*apiutil.Path, _ time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range paths {
		nlri, ok := p.Nlri.(*bgp.IPAddrPrefix)
		if !ok {
			continue
		}
		block, hop := nlri.Prefix.Masked(), nextHop(p)
		switch {
		case !t.accepts(block):
		case p.Withdrawal || !hop.IsValid() || isOwnPath(p):
			delete(t.best, block)
		default:
			t.best[block] = hop
		}
	}
	signal(t.changed)
}

// isOwnPath tells whether this speaker itself announced the path.
func isOwnPath(p *apiutil.Path) bool { return !p.PeerAddress.IsValid() }

func nextHop(p *apiutil.Path) netip.Addr {
	for _, a := range p.Attrs {
		if hop, ok := a.(*bgp.PathAttributeNextHop); ok {
			return hop.Value
		}
	}
	return netip.Addr{}
}

func (t *table) onPeer(e *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.IndexFunc(t.peers, func(p Peer) bool { return p.Address == e.Peer.State.NeighborAddress })
	if at < 0 {
		return
	}
	p := &t.peers[at]
	state := sessionState(e.Peer.State.SessionState)
	if p.State == Established && state != Established {
		p.Down = e.Peer.State.DisconnectMessage
	}
	if p.State != Established && state == Established {
		t.fresh = append(t.fresh, p.Address)
		signal(t.up)
	}
	p.State = state
	signal(t.changed)
}

// takeFresh gives the neighbours whose session has come up, each once.
func (t *table) takeFresh() []netip.Addr {
	t.mu.Lock()
	defer t.mu.Unlock()
	fresh := t.fresh
	t.fresh = nil
	return fresh
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // the token is there already
	}
}

// sessionState says BGP_FSM_ESTABLISHED as people do.
func sessionState(s bgp.FSMState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "BGP_FSM_"))
}
