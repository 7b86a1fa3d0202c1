package audit

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// lookup decides which packets a set matches, and which chains a verdict map leads to.
func (r *exprEvaluator) lookup(data nlmsg.Map) {
	of, err := r.sets.read(r.chain, data.Text(unix.NFTA_LOOKUP_SET))
	if err != nil {
		r.err = err
		return
	}
	if of.perPacket != "" {
		r.perPacket = of.perPacket
		if of.consumes {
			r.consume(of.perPacket)
		}
	}
	r.neverMatches = r.neverMatches || r.hasOtherProtocols(of, data)
	if of.counts {
		r.logAt()
	}
	r.protocolIn = 0 // data of a map may be written over it
	mapped := data.Has(unix.NFTA_LOOKUP_DREG)
	verdicts := mapped && data.BigEndian32(unix.NFTA_LOOKUP_DREG) == verdictReg
	last, part := r.loaded, r.field
	list := of.elements
	combined := slices.ContainsFunc(list, func(e element) bool { return len(e.key) != 0 && len(e.key) != 4 }) // the key contains the state
	if last == trackStatus || last == trackState && combined {
		r.useLoaded()
		last, r.alwaysMatches = otherField, false
	}
	r.loaded, r.field, r.pending = otherField, nil, false
	if !verdicts && last != trackState && part == nil {
		r.alwaysMatches = false
		return
	}
	s := setSearch{list: list, inverted: max(0, data.BigEndian32(unix.NFTA_LOOKUP_FLAGS))&1 != 0}
	switch {
	case part != nil && (of.flags&unix.NFT_SET_INTERVAL != 0 || !part.fits(list)):
		r.perPacket = part.name
	case part != nil:
		r.matchField(part, func(value []byte) bool {
			return s.matches(func(e element) bool { return bytes.Equal(e.key, value) })
		})
		if list = s.hitElements(); mapped && len(list) > 1 {
			r.perPacket = part.name
		}
	case last == trackState:
		is := func(state uint32) func(e element) bool {
			return func(e element) bool { return len(e.key) == 4 && binary.NativeEndian.Uint32(e.key) == state&r.mask }
		}
		r.matchStates(func(state uint32) bool { return s.matches(is(state)) })
		if r.pinned != 0 { // no packet has another state
			s.hits = nil
			s.matches(is(r.pinned))
		}
		if list = s.hitElements(); mapped && len(list) > 1 {
			r.dependsOnReply("ct state")
		}
		r.alwaysMatches = r.alwaysMatches && len(list) <= 1
		if r.chain.outer && mapped && s.find(is(nft.StateEstablished)) != s.find(is(nft.StateNew)) {
			r.separates = true
			if !verdicts {
				r.perPacket = "ct state" // it goes on with different data
			}
		}
	default:
		r.alwaysMatches = false
	}
	if !verdicts || r.neverMatches {
		return
	}
	r.verdictMap = r.verdictMap || len(list) != 1
	for _, e := range list {
		r.mayAccept, r.mayDrop, r.mayJump = r.mayAccept || e.verdict == "accept", r.mayDrop || e.verdict == "drop", r.mayJump || e.verdict == "jump"
		if e.to != "" {
			r.targets = append(r.targets, e.to)
		}
		if len(list) == 1 {
			r.decide(e.verdict)
		}
	}
}

// setSearch is a lookup in the elements of a set, for several packets.
type setSearch struct {
	list     []element
	inverted bool // a packet without an element matches
	hits     []int
}

// find returns the element of a packet, by its index; -1: there is none.
func (s *setSearch) find(is func(e element) bool) int {
	if i := slices.IndexFunc(s.list, is); i >= 0 {
		return i
	}
	return slices.IndexFunc(s.list, func(e element) bool { return len(e.key) == 0 }) // the catch-all element
}

// matches reports whether a packet matches.
func (s *setSearch) matches(is func(e element) bool) bool {
	i := s.find(is)
	if i >= 0 && !slices.Contains(s.hits, i) {
		s.hits = append(s.hits, i)
	}
	return i >= 0 != s.inverted
}

// hitElements are the elements that any packet matched.
func (s *setSearch) hitElements() (list []element) {
	for _, i := range s.hits {
		list = append(list, s.list[i])
	}
	return list
}
