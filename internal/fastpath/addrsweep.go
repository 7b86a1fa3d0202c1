package fastpath

import "github.com/venturi-net/venturi/internal/fastpath/bpf"

// addrSweep finds in a sweep which addresses flows have that have numbers: those of IPv6.
type addrSweep struct {
	used map[uint32]bool // nil: the addresses of these flows have none
	last uint32          // the last number that a program had given when the sweep began
}

func (s *addrSweep) start(objs *bpf.Objects) (err error) {
	numbered := false
	if s.last, numbered, err = objs.LastNumber(); numbered {
		s.used = map[uint32]bool{}
	}
	return err
}

func (s *addrSweep) see(k bpf.FlowKey) {
	if s.used != nil {
		s.used[k.Local], s.used[k.Remote] = true, true
	}
}

// end has all others forgotten.
func (s *addrSweep) end(objs *bpf.Objects) error {
	used := s.used
	s.used = nil
	if used == nil {
		return nil
	}
	return objs.ForgetAddrs(used, s.last)
}
