package setting

// Overlay makes settings that show what is written to them, while the host keeps what it
// has. A write has no side effects.
func (s *Settings) Overlay() *Settings {
	written := map[string]Value{}
	over := &Settings{backends: map[string]Backend{}, scope: s.scope}
	for name, b := range s.backends {
		read := b.Read
		b.Read = func(s Setting) (Value, error) {
			if v, known := written[s.ID()]; known {
				return v, nil
			}
			return read(s)
		}
		b.Write = func(s Setting, v Value) error {
			written[s.ID()] = v
			return nil
		}
		b.SideEffects, b.Sweep = nil, nil
		over.backends[name] = b
	}
	return over
}
