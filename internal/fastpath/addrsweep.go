package fastpath

import "github.com/venturi-net/venturi/internal/fastpath/bpf"

// addrSweep finds in a sweep which addresses flows have that have numbers: those of IPv6.
type addrSweep struct {
	used map[uint32]bool // nil: the addresses of these flows have none
}

func (s *addrSweep) start(objs *bpf.Objects) {
	s.used = nil
	if objs.HasNumbers() {
		s.used = map[uint32]bool{}
	}
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

// end has those forgotten that neither this sweep nor the one before has seen: a connection whose flow has just
// been deleted is still to be looked up by its key, such as one that was reset. flush says that all flows were
// deleted in this sweep, which is also soon after the one before.
func (s *addrSweep) end(objs *bpf.Objects, flush bool) error {
	used := s.used
	s.used = nil
	if used == nil || flush {
		return nil
	}
	return objs.ForgetAddrs(used)
}
