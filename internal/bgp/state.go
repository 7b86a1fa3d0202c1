package bgp

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// State is what a speaker says of itself, in a file that it replaces as a
// whole whenever something has changed.
type State struct {
	Peers  []Peer  `json:"peers"`  // in the order of the config
	Routes []Route `json:"routes"` // that are installed, in ascending order
	// Problems are routes that could not be installed or deleted, and why.
	Problems []string `json:"problems,omitempty"`
}

// Peer is the session with a neighbour.
type Peer struct {
	Address netip.Addr `json:"address"`
	State   string     `json:"state"` // of its state machine: idle, active, ..., established
	// Down is why it went down the last time; empty: it never did.
	Down string `json:"down,omitempty"`
}

// Established is the state of a session in which routes are exchanged.
const Established = "established"

// Route is a block that was learned and installed.
type Route struct {
	Prefix netip.Prefix `json:"prefix"`
	Via    netip.Addr   `json:"via"`
}

// ReadState reads a speaker's state. Until it has begun there is no file, and
// the error wraps os.ErrNotExist.
func ReadState(file string) (*State, error) {
	s := new(State)
	if err := host.ReadJSON(file, s); err != nil {
		return nil, fmt.Errorf("read state of a speaker: %w", err)
	}
	return s, nil
}

// errState is that of a state that could not be written.
var errState = errors.New("write state")

// write replaces the file: who reads it gets either the old state or the new.
func (s *State) write(file string) error {
	if err := netcfg.ReplaceJSON(file, s); err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	return nil
}

// NextHop says where the route to a prefix leads; false if none is installed.
func (s *State) NextHop(p netip.Prefix) (netip.Addr, bool) {
	for _, r := range s.Routes {
		if r.Prefix == p {
			return r.Via, true
		}
	}
	return netip.Addr{}, false
}
