package path

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// overBGP is routed, but no machine is told where the blocks of the others
// are: each has a speaker that announces its own and installs what it learns.
var overBGP = Driver{
	Name:    "bgp",
	Summary: "as routed, with the other machines' blocks learned by BGP",
	Example: "Calico with BGP, without encapsulation",
	Options: []Option{
		number(bgpReflectors, 0, maxReflectors, "0", "machines that are route reflectors for the others; 0: full mesh"),
		number(bgpASN, 1, 1<<32-1, "64512", "autonomous system number"),
		number(bgpHold, bgp.MinHold, bgp.MaxHold, fmt.Sprint(bgp.DefaultHold), "hold time, seconds: a speaker that is silent for so long counts as dead"),
		mtu,
	},
	CheckHosts: func(a Arm, hosts int) error {
		n := a.Options.Int(bgpReflectors)
		if n < hosts {
			return nil
		}
		return verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s with %s=%d", a.Name, bgpReflectors, n),
			fmt.Sprintf("the lab has %d machines, and at least one must not be a reflector", hosts),
			fmt.Sprintf("give %s=%d or less, or more --hosts", bgpReflectors, hosts-1))
	},
	Up: bgpUp,
}

// Names of the options.
const (
	bgpReflectors = "reflector"
	bgpASN        = "asn"
	bgpHold       = "hold"
)

// maxReflectors is one less than a lab can have machines.
const maxReflectors = 249

// bgpReady is how long the machines may take to learn of all blocks. The
// library lets two seconds go by before it dials, and as many before the next
// time; the rest is for many speakers on few cores.
var bgpReady = host.ScaleTimeout(40 * time.Second)

// bgpCluster is the cluster that all reflectors of an arm stand for, the
// address that Calico's documentation takes.
var bgpCluster = netip.MustParseAddr("244.0.0.1")

func bgpUp(ctx context.Context, s *Site) (Ends, error) {
	speakers := make([]*netcfg.Child, len(s.Machines))
	states := make([]string, len(s.Machines))
	ends, err := s.onePod(ctx, s.routedPod, func(i int) (err error) {
		speakers[i], states[i], err = s.bgpSpeaker(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, speaker := range speakers {
		if speaker == nil {
			continue // another host's
		}
		err := speaker.Await(ctx, bgpReady, func(context.Context) error { return s.bgpLearned(i, states[i]) })
		if err != nil {
			return nil, fmt.Errorf("learn routes on %s: %w", s.Machines[i].Name, err)
		}
	}
	return ends, nil
}

// bgpSpeaker starts the speaker of a machine and gives the file of its state.
func (s *Site) bgpSpeaker(i int) (*netcfg.Child, string, error) {
	folder, err := s.Folder(i)
	if err != nil {
		return nil, "", err
	}
	c := s.bgpConfig(i)
	c.State = filepath.Join(folder, "state.json")
	file := filepath.Join(folder, "speaker.json")
	if err := c.Write(file); err != nil {
		return nil, "", err
	}
	child, err := s.Start(i, s.Machines[i].In, netcfg.Command{
		Args: append(append([]string{}, s.Program...), "speaker", "--config", file),
		Log:  filepath.Join(folder, "speaker.log"),
	})
	return child, c.State, err
}

// bgpConfig says what the speaker of a machine is to do. Of each two speakers
// the one that is started later dials: the other listens by then.
func (s *Site) bgpConfig(i int) *bgp.Config {
	m, asn, port := s.Machines[i], uint32(s.Options.Int(bgpASN)), s.bgpPort()
	c := &bgp.Config{
		ASN:      asn,
		RouterID: m.Addr,
		Listen:   netip.AddrPortFrom(m.Addr, port),
		Announce: []netip.Prefix{s.block(i)},
		Hold:     s.Options.Int(bgpHold),
	}
	if s.reflects(i) {
		c.ClusterID = bgpCluster
	}
	for j, other := range s.otherMachines(i) {
		// Speakers of other arms on this machine have blocks of their own.
		c.Accept = append(c.Accept, s.block(j))
		if s.Options.Int(bgpReflectors) > 0 && !s.reflects(i) && !s.reflects(j) {
			continue // they hear of each other through the reflectors
		}
		c.Neighbours = append(c.Neighbours, bgp.Neighbour{
			Address: other.Addr, ASN: asn, Port: port,
			Client:  s.reflects(i) && !s.reflects(j),
			Passive: j > i,
		})
	}
	return c
}

// reflects tells whether a machine is a route reflector: the first ones are.
func (s *Site) reflects(i int) bool { return i < s.Options.Int(bgpReflectors) }

// bgpPort is where the arm's speakers listen. A machine has a speaker for each
// arm, and only one can have the port of the protocol.
func (s *Site) bgpPort() uint16 {
	if s.Nth == 0 {
		return bgp.DefaultPort
	}
	return uint16(10*bgp.DefaultPort + s.Nth)
}

// bgpLearned tells what a machine does not know yet of the others; nil: it
// has a route to each block, by the machine that owns it.
func (s *Site) bgpLearned(i int, file string) error {
	state, err := bgp.ReadState(file)
	if err != nil {
		return err
	}
	for j, other := range s.otherMachines(i) {
		if via, ok := state.NextHop(s.block(j)); !ok || via != other.Addr {
			return fmt.Errorf("no route to %s of %s; %s", s.block(j), other.Name, s.bgpMissing(state))
		}
	}
	return nil
}

// bgpMissing says which sessions are not up, and what else is wrong.
func (s *Site) bgpMissing(state *bgp.State) string {
	var wrong []string
	for _, p := range state.Peers {
		if p.State == bgp.Established {
			continue
		}
		text := fmt.Sprintf("the session with %s (%s) is %s", s.machineAt(p.Address), p.Address, p.State)
		if p.Down != "" {
			text += ", it went down: " + p.Down
		}
		wrong = append(wrong, text)
	}
	wrong = append(wrong, state.Problems...)
	if len(wrong) == 0 {
		return "all sessions are up"
	}
	return strings.Join(wrong, "; ")
}

// machineAt names the machine that has an address on the wire.
func (s *Site) machineAt(addr netip.Addr) string {
	for _, m := range s.Machines {
		if m.Addr == addr {
			return m.Name
		}
	}
	return "nobody"
}
