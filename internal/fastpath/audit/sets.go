package audit

import (
	"cmp"
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// setReader reads sets of nftables, each once.
type setReader struct {
	cache       map[setName]*filterSet
	heads       map[setName][]byte // messages about sets, by name
	asked       map[[2]string]bool // families and tables that were listed
	dynamic     map[setName]bool   // sets that rules update: the kernel sends no notification of that
	fillsIPSets bool               // some rule updates an ipset
}

type setName struct{ family, table, set string }

// filterSet is a set of nftables.
type filterSet struct {
	flags     uint32
	perPacket string // why a lookup does not hold for the next packet; "" means that it does
	elements  []element
	counts    bool // its elements count, or have other expressions
	consumes  bool // these decide by what they count of all packets
}

// element is an element of a set: its key, and its verdict or data.
type element struct {
	key         []byte
	verdict, to string
	counts      bool // it counts, or has another expression
	consumes    bool // this decides by what it counts
}

func newSetReader() *setReader {
	return &setReader{cache: map[setName]*filterSet{}, heads: map[setName][]byte{}, asked: map[[2]string]bool{}, dynamic: map[setName]bool{}}
}

// setFlagsProven are the flags of sets whose elements only a user changes: anonymous, constant,
// interval, map, concatenation, with expressions.
const setFlagsProven = unix.NFT_SET_ANONYMOUS | unix.NFT_SET_CONSTANT | unix.NFT_SET_INTERVAL | unix.NFT_SET_MAP | setConcat | setExpressions

const (
	setConcat      = 1 << 7 // NFT_SET_CONCAT
	setExpressions = 1 << 8 // NFT_SET_EXPR

	setExpression      = 17 // NFTA_SET_EXPR
	setExpressionList  = 18 // NFTA_SET_EXPRESSIONS
	elemExpressionList = 11 // NFTA_SET_ELEM_EXPRESSIONS
)

// read reads a set of a chain's table. A set that is gone is empty; a notification of that follows.
func (r *setReader) read(c chainName, name string) (*filterSet, error) {
	at := setName{c.family, c.table, name}
	if s := r.cache[at]; s != nil {
		return s, nil
	}
	if err := r.listSets(c); err != nil {
		return nil, err
	}
	s := &filterSet{}
	r.cache[at] = s
	head := r.heads[at]
	if head == nil {
		return s, nil
	}
	attrs, _, err := nft.FilterAttrs(head)
	if err != nil {
		return nil, err
	}
	s.auditHead(name, attrs)
	if s.perPacket == "" && r.dynamic[at] {
		s.perPacket = "elements of set " + name + " come and go by themselves"
	}
	return s, s.readElements(c, name)
}

// listSets lists the sets of a chain's table.
func (r *setReader) listSets(c chainName) error {
	table := [2]string{c.family, c.table}
	if r.asked[table] {
		return nil
	}
	r.asked[table] = true
	found, err := askFilter(unix.NFT_MSG_GETSET, c.family, nl.NewRtAttr(unix.NFTA_SET_TABLE, nl.ZeroTerminated(c.table)))
	if err != nil {
		return err
	}
	for _, m := range found {
		attrs, _, err := nft.FilterAttrs(m)
		if err != nil {
			return err
		}
		r.heads[setName{c.family, c.table, nlmsg.ByNumber(attrs).Text(unix.NFTA_SET_NAME)}] = m
	}
	return nil
}

// auditHead audits the properties of a set.
func (s *filterSet) auditHead(name string, attrs nlmsg.Attrs) {
	data := nlmsg.ByNumber(attrs)
	s.flags = uint32(max(0, data.BigEndian32(unix.NFTA_SET_FLAGS)))
	s.counts = data.Has(setExpression) || data.Has(setExpressionList)
	decides := expressionOfSet(data[setExpression], data[setExpressionList])
	s.consumes = decides != ""
	switch {
	case s.flags&(unix.NFT_SET_TIMEOUT|unix.NFT_SET_EVAL) != 0 || data.Has(unix.NFTA_SET_TIMEOUT):
		s.perPacket = "elements of set " + name + " come and go by themselves"
	case s.flags&^setFlagsProven != 0:
		s.perPacket = fmt.Sprintf("set %s has flags %#x", name, s.flags&^setFlagsProven)
	default:
		if s.perPacket = cmp.Or(decides, provenSet.FirstUnknown(attrs)); s.perPacket != "" {
			s.perPacket = fmt.Sprintf("set %s: %s", name, s.perPacket)
		}
	}
}

// expressionOfSet names an expression of a set or an element that decides something; "" means none.
func expressionOfSet(one, list []byte) string {
	all := [][]byte{}
	if one != nil {
		all = append(all, one)
	}
	attrs, err := nl.ParseRouteAttr(list)
	for _, a := range attrs {
		all = append(all, a.Value)
	}
	for _, e := range all {
		name := "an expression that cannot be read"
		if err == nil {
			if read, _, failed := nft.ExpressionData(e); failed == nil {
				name = read
			}
		}
		if !provenElementExpressions[name] {
			return name
		}
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// readElements reads the elements.
func (s *filterSet) readElements(c chainName, set string) error {
	found, err := askFilter(unix.NFT_MSG_GETSETELEM, c.family,
		nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_TABLE, nl.ZeroTerminated(c.table)), nl.NewRtAttr(unix.NFTA_SET_ELEM_LIST_SET, nl.ZeroTerminated(set)))
	if err != nil {
		return err
	}
	for _, m := range found {
		attrs, _, err := nft.FilterAttrs(m)
		if err != nil {
			return err
		}
		elems, err := nl.ParseRouteAttr(nlmsg.ByNumber(attrs)[unix.NFTA_SET_ELEM_LIST_ELEMENTS])
		if err != nil {
			return err
		}
		for _, e := range elems {
			read, perPacket, err := readElement(e.Value)
			if err != nil {
				return err
			}
			if perPacket != "" && s.perPacket == "" {
				s.perPacket = fmt.Sprintf("an element of set %s: %s", set, perPacket)
			}
			s.elements, s.counts, s.consumes = append(s.elements, read), s.counts || read.counts, s.consumes || read.consumes
		}
	}
	return nil
}

func readElement(message []byte) (e element, perPacket string, err error) {
	parts, err := nl.ParseRouteAttr(message)
	if err != nil {
		return e, "", err
	}
	data := nlmsg.ByNumber(parts)
	e.key = data.DataValue(unix.NFTA_SET_ELEM_KEY)
	e.counts = data.Has(unix.NFTA_SET_ELEM_EXPR) || data.Has(elemExpressionList)
	decides := expressionOfSet(data[unix.NFTA_SET_ELEM_EXPR], data[elemExpressionList])
	e.consumes, perPacket = decides != "", cmp.Or(decides, provenElement.FirstUnknown(parts))
	if value, err := nl.ParseRouteAttr(data[unix.NFTA_SET_ELEM_DATA]); err == nil {
		if verdict := nlmsg.ByNumber(value)[unix.NFTA_DATA_VERDICT]; verdict != nil {
			known := false
			if e.verdict, e.to, known = verdictOf(verdict); !known {
				perPacket = "a verdict that is not known"
			}
		}
	}
	return e, perPacket, nil
}
