package accel

import (
	"encoding/json"
	"fmt"
	"os"
)

// State is what a daemon says of itself.
type State struct {
	// Off says why nothing is carried; empty: it is.
	Off   string `json:"off,omitempty"`
	Pods  int    `json:"pods"`  // that are known
	Peers int    `json:"peers"` // that are known
}

// ReadState reads a daemon's state. Until it has begun there is no file, and the
// error wraps os.ErrNotExist.
func ReadState(file string) (*State, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read state of a fast path: %w", err)
	}
	s := new(State)
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read state of a fast path: %s: %w", file, err)
	}
	return s, nil
}

// write replaces the file: who reads it gets either the old state or the new.
func (s *State) write(file string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	half := file + ".new"
	if err := os.WriteFile(half, text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return os.Rename(half, file)
}
