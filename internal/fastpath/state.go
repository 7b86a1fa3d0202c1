package fastpath

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// State is what a daemon says of itself.
type State struct {
	// Off says why nothing is carried; empty: it is.
	Off string `json:"off,omitempty"`
	// Unreplied says why a flow of UDP is not carried before there was an answer.
	Unreplied string `json:"unreplied,omitempty"`
	Pods      int    `json:"pods"`              // that are known, with their programs attached
	Waiting   int    `json:"waiting,omitempty"` // pods whose programs are yet to be attached: they are slow
	Peers     int    `json:"peers"`             // that are known
	// Refused are ways that are left to the slow path, each for a reason of its own.
	Refused []topology.Refusal `json:"refused,omitempty"`
}

// ReadState reads a daemon's state. Until it has begun there is no file, and the
// error wraps os.ErrNotExist.
func ReadState(file string) (*State, error) {
	s := new(State)
	if err := host.ReadJSON(file, s); err != nil {
		return nil, fmt.Errorf("read state of a fast path: %w", err)
	}
	return s, nil
}

// write replaces the file: who reads it gets either the old state or the new.
func (s *State) write(file string) error {
	if err := netcfg.ReplaceJSON(file, s); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}
