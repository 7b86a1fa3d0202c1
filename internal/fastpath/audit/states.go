package audit

import "github.com/venturi-net/venturi/internal/nft"

// states are the connection states that packets may have. Packets of a tunnel in UDP get no replies,
// because packets in the other direction use other ports. So each may be the first of its
// connection; those of IPIP get replies, and any may be the first after the entry's timeout. Ahead of
// connection tracking, packets have no state, unless a bridge has tracked them.
func (r *exprEvaluator) states() (all []uint32) {
	switch {
	case r.chain.outer:
		all = []uint32{nft.StateNew, nft.StateEstablished, stateUntracked}
	case r.stateless:
		all = []uint32{stateUntracked}
	case r.unreplied:
		all = []uint32{nft.StateNew}
	default:
		all = []uint32{nft.StateEstablished}
	}
	if r.chain.early {
		all = append(all, stateInvalid)
	}
	return all
}

// matchStates evaluates a rule that matches some connection states. A connection without a reply
// may pass through several of them.
func (r *exprEvaluator) matchStates(passes func(state uint32) bool) {
	if r.unreplied && !r.chain.outer {
		if some, all := matchCounts([]uint32{nft.StateNew, stateRelated, nft.StateEstablished}, passes); some && !all {
			r.dependsOnReply("ct state")
			r.alwaysMatches = false
			return
		}
	}
	some, all := matchCounts(r.states(), passes)
	r.neverMatches, r.alwaysMatches = r.neverMatches || !some, r.alwaysMatches && all
}

// tracked reports whether every packet in the chain is sure to belong to a connection.
func (r *exprEvaluator) tracked() bool { return !r.chain.outer && !r.chain.early && !r.stateless }
