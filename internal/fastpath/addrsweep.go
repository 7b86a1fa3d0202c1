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

// see sees an entry. That of a translated flow has other addresses, too, which packets get from it.
func (s *addrSweep) see(k bpf.FlowKey, v bpf.Flow) {
	if s.used == nil {
		return
	}
	s.used[k.Local], s.used[k.Remote] = true, true
	if v.Translated != 0 {
		s.used[v.Other.Local], s.used[v.Other.Remote] = true, true
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
