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
func (e *exprEvaluator) lookup(data nlmsg.Map) {
	of, err := e.sets.read(e.chain, data.Text(unix.NFTA_LOOKUP_SET))
	if err != nil {
		e.err = err
		return
	}
	if of.perPacket != "" {
		e.perPacket = of.perPacket
		if of.consumes {
			e.consume(of.perPacket)
		}
	}
	e.neverMatches = e.neverMatches || e.hasOtherProtocols(of, data)
	if of.counts {
		e.logAt()
	}
	e.protocolIn = 0 // data of a map may be written over it
	mapped := data.Has(unix.NFTA_LOOKUP_DREG)
	verdicts := mapped && data.BigEndian32(unix.NFTA_LOOKUP_DREG) == unix.NFT_REG_VERDICT
	last, part := e.loaded, e.field
	list := of.elements
	combined := slices.ContainsFunc(list, func(el element) bool { return len(el.key) != 0 && len(el.key) != 4 }) // the key contains the state
	if last == trackStatus || last == trackState && combined {
		e.useLoaded()
		last, e.alwaysMatches = otherField, false
	}
	e.loaded, e.field, e.pending = otherField, nil, false
	if !verdicts && last != trackState && part == nil {
		e.alwaysMatches = false
		return
	}
	s := setSearch{list: list, inverted: max(0, data.BigEndian32(unix.NFTA_LOOKUP_FLAGS))&1 != 0}
	switch {
	case part != nil && (of.flags&unix.NFT_SET_INTERVAL != 0 || !part.fits(list)):
		e.perPacket = part.name
	case part != nil:
		e.matchField(part, func(value []byte) bool {
			return s.matches(func(el element) bool { return bytes.Equal(el.key, value) })
		})
		if list = s.hitElements(); mapped && len(list) > 1 {
			e.perPacket = part.name
		}
	case last == trackState:
		is := func(state uint32) func(element) bool {
			return func(el element) bool { return len(el.key) == 4 && binary.NativeEndian.Uint32(el.key) == state&e.mask }
		}
		e.matchStates(func(state uint32) bool { return s.matches(is(state)) })
		if e.pinned != 0 { // no packet has another state
			s.hits = nil
			s.matches(is(e.pinned))
		}
		if list = s.hitElements(); mapped && len(list) > 1 {
			e.dependsOnReply("ct state")
		}
		e.alwaysMatches = e.alwaysMatches && len(list) <= 1
		if e.chain.outer && mapped && s.find(is(nft.StateEstablished)) != s.find(is(nft.StateNew)) {
			e.separates = true
			if !verdicts {
				e.perPacket = "ct state" // it goes on with different data
			}
		}
	default:
		e.alwaysMatches = false
	}
	if !verdicts || e.neverMatches {
		return
	}
	e.verdictMap = e.verdictMap || len(list) != 1
	for _, el := range list {
		e.mayAccept, e.mayDrop, e.mayJump = e.mayAccept || el.verdict == "accept", e.mayDrop || el.verdict == "drop", e.mayJump || el.verdict == "jump"
		if el.to != "" {
			e.targets = append(e.targets, el.to)
		}
		if len(list) == 1 {
			e.decide(el.verdict)
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
