package host

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// lookup judges whom a set lets pass, and where a map of verdicts leads them.
func (r *rulingReader) lookup(data exprData) error {
	name := data.text(unix.NFTA_LOOKUP_SET)
	of, err := r.sets.read(r.chain, name)
	if err != nil {
		return err
	}
	if of.fickle != "" {
		r.fickle = of.fickle
	}
	mapped := data.has(unix.NFTA_LOOKUP_DREG)
	verdicts := mapped && data.number(unix.NFTA_LOOKUP_DREG) == verdictReg
	last, part := r.last, r.part
	r.last, r.part, r.unread = something, nil, false
	if !verdicts && last != trackState && part == nil {
		r.certain = false
		return nil
	}
	list := of.elements
	if last == trackState && slices.ContainsFunc(list, func(e element) bool { return len(e.key) != 0 && len(e.key) != 4 }) {
		r.asks("ct state") // it is a part of what is looked for
		last, r.certain = something, false
	}
	s := search{list: list, inverted: max(0, data.number(unix.NFTA_LOOKUP_FLAGS))&1 != 0}
	switch {
	case part != nil && (of.flags&unix.NFT_SET_INTERVAL != 0 || !part.fits(list)):
		r.fickle = part.name
	case part != nil:
		r.differ(part, func(value []byte) bool {
			return s.finds(func(e element) bool { return bytes.Equal(e.key, value) })
		})
		if list = s.found(); mapped && len(list) > 1 {
			r.fickle = part.name
		}
	case last == trackState:
		r.among(func(state uint32) bool {
			return s.finds(func(e element) bool { return len(e.key) == 4 && binary.NativeEndian.Uint32(e.key) == state&r.mask })
		})
		if list = s.found(); mapped && len(list) > 1 {
			r.asks("ct state")
		}
		r.certain = r.certain && len(list) <= 1
	default:
		r.certain = false
	}
	if !verdicts || r.others {
		return nil
	}
	for _, e := range list {
		if e.to != "" {
			r.to = append(r.to, e.to)
		}
		if len(list) == 1 {
			r.verdict = e.verdict
		}
	}
	return nil
}

// search is one in the elements of a set, for several packets.
type search struct {
	list     []element
	inverted bool // who is not found passes
	hits     []int
}

// finds tells whether a packet passes.
func (s *search) finds(is func(e element) bool) bool {
	i := slices.IndexFunc(s.list, is)
	if i < 0 { // one without a key is for all others
		i = slices.IndexFunc(s.list, func(e element) bool { return len(e.key) == 0 })
	}
	if i >= 0 && !slices.Contains(s.hits, i) {
		s.hits = append(s.hits, i)
	}
	return i >= 0 != s.inverted
}

// found are the elements that were, for whatever packet.
func (s *search) found() (list []element) {
	for _, i := range s.hits {
		list = append(list, s.list[i])
	}
	return list
}
