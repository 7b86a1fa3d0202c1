package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Netlink attributes and flags of ipset, besides those of package nl: see the kernel's ip_set.h.
const (
	ipsetProtocol   = 7  // the first that numbers sets
	ipsetIndex      = 11 // IPSET_ATTR_INDEX
	ipsetOnlyHeader = 1 << 2
	ipsetListOfSets = "list:set"
)

// ipset is an ipset as rules know it.
type ipset struct {
	name      string
	kind      string // with what it asks of a packet, such as hash:ip,port
	perPacket string // why the answer to a packet may not hold for the next one, other than by a user's change
}

// listIPSets lists a set, or the headers of all sets if it has no name.
func listIPSets(by map[int]*nl.SocketHandle, name string) ([][]byte, error) {
	return nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_IPSET<<8|nl.IPSET_CMD_LIST, unix.NLM_F_DUMP)
		req.Sockets = by
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: unix.NFNETLINK_V0})
		req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_PROTOCOL, nl.Uint8Attr(ipsetProtocol)))
		if name != "" {
			req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_SETNAME, nl.ZeroTerminated(name)))
		} else {
			req.AddData(nl.NewRtAttr(nl.IPSET_ATTR_FLAGS|unix.NLA_F_NET_BYTEORDER, nl.BEUint32Attr(ipsetOnlyHeader)))
		}
		return req.Execute(unix.NETLINK_NETFILTER, 0)
	})
}

// readIPSets reads what there is to know of the ipsets of the calling thread's namespace, by number.
func readIPSets() (map[uint16]ipset, error) {
	found, err := listIPSets(nil, "")
	if err != nil {
		return nil, fmt.Errorf("list ipsets: %w", err)
	}
	all := map[uint16]ipset{}
	for _, m := range found {
		number, s, err := readIPSet(m)
		if err != nil {
			return nil, fmt.Errorf("parse an ipset: %w", err)
		}
		all[number] = s
	}
	return all, nil
}

// readIPSet reads the header of an ipset.
func readIPSet(message []byte) (number uint16, s ipset, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return 0, s, err
	}
	data := nlmsg.ByNumber(attrs)
	index := data.Bytes(ipsetIndex)
	if len(index) < 2 {
		return 0, s, errors.New("it has no number")
	}
	head, err := nl.ParseRouteAttr(data.Bytes(nl.IPSET_ATTR_DATA))
	if err != nil {
		return 0, s, err
	}
	s.name, s.kind = data.Text(nl.IPSET_ATTR_SETNAME), data.Text(nl.IPSET_ATTR_TYPENAME)
	switch of := nlmsg.ByNumber(head); {
	case of.Has(nl.IPSET_ATTR_TIMEOUT):
		s.perPacket = "entries of ipset " + s.name + " come and go by themselves"
	case max(0, of.BigEndian32(nl.IPSET_ATTR_CADT_FLAGS))&nl.IPSET_FLAG_WITH_COUNTERS != 0:
		s.perPacket = "ipset " + s.name + " counts"
	case s.kind == ipsetListOfSets:
		s.perPacket = "ipset " + s.name + " is a list of sets"
	}
	return binary.BigEndian.Uint16(index), s, nil
}

// matchIPSet evaluates iptables' match set, which begins with struct xt_set_info.
func (e *exprEvaluator) matchIPSet(info []byte, revision int) (err error) {
	if e.neverMatches || e.following {
		return nil
	}
	unknown := "an ipset that is not known"
	if len(info) < 2 {
		e.perPacket = unknown
		return nil
	}
	if e.ipsets == nil {
		if e.ipsets, err = readIPSets(); err != nil {
			return err
		}
	}
	if err := e.scanRules(true); err != nil { // any rule may fill one
		return err
	}
	s, known := e.ipsets[binary.NativeEndian.Uint16(info)]
	switch {
	case !known:
		e.perPacket = unknown
	case e.sets.fillsIPSets:
		e.perPacket = "ipset " + s.name + ", while rules fill ipsets"
	case s.perPacket != "":
		e.perPacket = s.perPacket
	case e.chain.outer && s.readsSource(info, revision):
		e.perPacket = "ipset " + s.name + " asks for MACs or source ports"
	default:
		e.asks = append(e.asks, s.name)
	}
	return nil
}

// IPSetPoller watches ipsets, of whose changes the kernel sends no notification. It keeps its socket
// open, as [HookPoller] does.
type IPSetPoller struct {
	socket *nl.NetlinkSocket
	names  []string
	seed   maphash.Seed
	digest uint64
	next   time.Time
}

// ipsetRest is how much longer the poller rests than it takes to read the sets.
const ipsetRest = 50

// OpenIPSetPoller opens a poller of the calling thread's namespace.
func OpenIPSetPoller() (*IPSetPoller, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &IPSetPoller{socket: socket, seed: maphash.MakeSeed()}, nil
}

// Close closes the poller's socket.
func (p *IPSetPoller) Close() { p.socket.Close() }

// Watch starts to watch sets as they are now. changed reports whether others were watched before, or
// these were otherwise.
func (p *IPSetPoller) Watch(names []string) (changed bool, err error) {
	same, before := slices.Equal(names, p.names), p.digest
	p.names = slices.Clone(names)
	p.digest, err = p.read()
	return !same || p.digest != before, err
}

// Changed reports whether the sets have changed since they were last looked at. It does not look each
// time if that takes long.
func (p *IPSetPoller) Changed() (bool, error) {
	begin := time.Now()
	if len(p.names) == 0 || begin.Before(p.next) {
		return false, nil
	}
	digest, err := p.read()
	p.next = time.Now().Add(ipsetRest * time.Since(begin))
	changed := digest != p.digest
	p.digest = digest
	return changed, err
}

// read makes a digest of the sets: of their properties, and of their elements in order. A set that is
// gone has none.
func (p *IPSetPoller) read() (uint64, error) {
	var sum maphash.Hash
	sum.SetSeed(p.seed)
	for _, name := range p.names {
		found, err := listIPSets(map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: p.socket}}, name)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return 0, fmt.Errorf("list ipset %s: %w", name, err)
		}
		_, _ = sum.WriteString(name)
		for _, m := range found {
			attrs, _, err := nft.FilterAttrs(m)
			if err != nil {
				return 0, fmt.Errorf("parse ipset %s: %w", name, err)
			}
			if number, s, err := readIPSet(m); err == nil {
				_, _ = sum.WriteString(fmt.Sprint(number, s.perPacket))
			}
			_, _ = sum.Write(nlmsg.ByNumber(attrs).Bytes(nl.IPSET_ATTR_ADT))
		}
	}
	return sum.Sum64(), nil
}
