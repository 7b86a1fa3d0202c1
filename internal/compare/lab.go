package compare

import "github.com/venturi-net/venturi/internal/lab"

// Lab is the lab of the session, for who changes the state that its paths are in
// between two comparisons.
func (s *Session) Lab() *lab.Lab { return s.lab }
