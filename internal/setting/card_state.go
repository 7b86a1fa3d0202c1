package setting

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// cardState is what a card has that the kernel takes away when it changes namespaces; or, of
// one that is away, where it is.
type cardState struct {
	Netns      string            `json:"netns,omitempty"`
	Name       string            `json:"name"`
	Alias      string            `json:"alias,omitempty"`
	Flags      uint32            `json:"flags,omitempty"` // of [userFlags]
	MTU        int               `json:"mtu,omitempty"`
	Addresses  []cardMessage     `json:"addresses,omitempty"`
	Routes     []cardMessage     `json:"routes,omitempty"`
	Neighbours []cardMessage     `json:"neighbours,omitempty"` // that do not expire
	Sysctls    map[string]string `json:"sysctls,omitempty"`    // by their files, without the card's name
	Settings   []deviceValue     `json:"settings,omitempty"`
}

// cardMessage is one address, route or neighbour as the kernel tells of it, and takes it.
type cardMessage struct {
	Text    string `json:"is"`      // for people
	Message []byte `json:"message"` // of rtnetlink, without the card's number, and without what changes by itself
}

func (m cardMessage) equal(n cardMessage) bool { return bytes.Equal(m.Message, n.Message) }

// deviceValue is one of [DeviceSettings].
type deviceValue struct {
	Backend string `json:"store"`
	Key     string `json:"key,omitempty"`
	Value   Value  `json:"value"`
}

// userFlags are the flags of a device that somebody sets.
const userFlags = unix.IFF_UP | unix.IFF_DEBUG | unix.IFF_NOARP | unix.IFF_PROMISC | unix.IFF_ALLMULTI | unix.IFF_MULTICAST | unix.IFF_DYNAMIC

func (s cardState) value() (Value, error) {
	text, err := json.MarshalIndent(s, "", " ") // a difference of two can be read
	return Value{Data: text, Present: true}, err
}

// partOf tells whether the state is one on the way to another: a card that is at home again, and
// does not have all of it yet.
func (s cardState) partOf(want cardState) bool {
	if s.Netns != "" || want.Netns != "" {
		return false
	}
	within := func(some, all []cardMessage) bool {
		return !slices.ContainsFunc(some, func(m cardMessage) bool { return !slices.ContainsFunc(all, m.equal) })
	}
	return strings.HasPrefix(s.Alias, cardMarkPrefix) ||
		within(s.Addresses, want.Addresses) && within(s.Routes, want.Routes) && within(s.Neighbours, want.Neighbours)
}

// readState reads what a card at home has, and lists what of it could not be given back.
func (at cardLocation) readState() (s cardState, obstacles []string, err error) {
	err = at.do(func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByIndex(at.index)
		if err != nil {
			return err
		}
		a := link.Attrs()
		s = cardState{Name: a.Name, Alias: a.Alias, Flags: a.RawFlags & userFlags, MTU: a.MTU, Sysctls: cardSysctls(a.Name)}
		var lent, unkept []string
		s.Addresses, lent, err = cardAddresses(a.Index)
		if err == nil {
			s.Routes, unkept, err = cardRoutes(a.Index)
		}
		if err == nil {
			s.Neighbours, err = cardNeighbours(a.Index)
		}
		obstacles = slices.Concat(lent, unkept)
		if a.Xdp != nil && a.Xdp.Attached {
			obstacles = append(obstacles, "an XDP program is attached to it")
		}
		if err != nil {
			return err
		}
		qdiscs, err := h.QdiscList(link)
		if slices.ContainsFunc(qdiscs, func(q netlink.Qdisc) bool { return q.Attrs().Parent == netlink.HANDLE_INGRESS }) {
			obstacles = append(obstacles, "filters of traffic control are attached to it (clsact or ingress)")
		}
		return err
	})
	if err != nil {
		return s, nil, err
	}
	var qdisc error
	if s.Settings, qdisc, err = at.deviceValues(); qdisc != nil {
		obstacles = append(obstacles, "its queueing discipline: "+qdisc.Error())
	}
	return s, obstacles, err
}

// scope is that of the card where it is.
func (at cardLocation) scope() (Scope, error) { return DeviceScope(at.netns, at.name) }

// deviceValues reads the settings of the card. Qdisc is why its queueing discipline could not be
// given back.
func (at cardLocation) deviceValues() (all []deviceValue, qdisc, err error) {
	scope, err := at.scope()
	if err != nil {
		return nil, nil, err
	}
	settings, err := DeviceSettings(scope)
	if err != nil {
		return nil, nil, err
	}
	err = NewSettings(deviceBackends()...).WithEntered(scope, func(known *Settings) error {
		for _, s := range settings {
			if _, err := known.backend(s); err != nil || s.Backend == "link" && s.Key == "mtu" {
				continue // interrupts belong to the machine, and the MTU is known
			}
			v, err := known.Read(s)
			if err != nil {
				return err
			}
			all = append(all, deviceValue{s.Backend, s.Key, v})
			if q, err := ReadQdisc(v); s.Backend == "qdisc" && err == nil {
				qdisc = q.Exact()
			}
		}
		return nil
	})
	return all, qdisc, err
}

// cardSysctls reads the sysctls that the calling thread's namespace has for a device, as far as
// they can be written.
func cardSysctls(device string) map[string]string {
	all := map[string]string{}
	for file, key := range sysctlFiles(device) {
		if info, err := os.Stat(file); err != nil || info.Mode()&0o200 == 0 {
			continue
		}
		if text, err := os.ReadFile(file); err == nil {
			all[key] = strings.TrimSuffix(string(text), "\n")
		}
	}
	return all
}

// sysctlFiles lists the files of a device's sysctls, with their names for every device.
func sysctlFiles(device string) map[string]string {
	const root = "/proc/sys/net"
	files := map[string]string{}
	families, _ := os.ReadDir(root) // what is not there has no sysctls
	for _, family := range families {
		for _, kind := range []string{"conf", "neigh"} {
			folder := filepath.Join(root, family.Name(), kind, device)
			entries, _ := os.ReadDir(folder)
			for _, e := range entries {
				files[filepath.Join(folder, e.Name())] = filepath.Join(family.Name(), kind, e.Name())
			}
		}
	}
	return files
}

// rawMessage is a message of rtnetlink, or the beginning of one, as it is sent.
type rawMessage []byte

func (m rawMessage) Len() int          { return len(m) }
func (m rawMessage) Serialize() []byte { return m }

// Sizes of what messages of rtnetlink begin with.
const (
	addressHeader   = 8  // struct ifaddrmsg
	routeHeader     = 12 // struct rtmsg
	neighbourHeader = 12 // struct ndmsg
)

// dumpMessages lists messages of a family in the calling thread's namespace.
func dumpMessages(request, answer int, header rawMessage) ([][]byte, error) {
	return nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
		req.AddData(header)
		return req.Execute(unix.NETLINK_ROUTE, uint16(answer))
	})
}

var ipFamilies = []byte{unix.AF_INET, unix.AF_INET6}

// canonical is a message without some attributes, the others in the order of their numbers.
func canonical(header []byte, attrs []nlmsg.Attr, without ...uint16) rawMessage {
	attrs = slices.Clone(attrs)
	slices.SortStableFunc(attrs, func(a, b nlmsg.Attr) int { return int(nlmsg.Number(a.Attr.Type)) - int(nlmsg.Number(b.Attr.Type)) })
	m := rawMessage(slices.Clone(header))
	for _, a := range attrs {
		if !slices.Contains(without, nlmsg.Number(a.Attr.Type)) {
			m = append(m, nl.NewRtAttr(int(a.Attr.Type), a.Value).Serialize()...)
		}
	}
	return m
}

// split gives the header and the attributes of a message.
func split(m []byte, header int) ([]byte, []nlmsg.Attr, nlmsg.Map, error) {
	if len(m) < header {
		return nil, nil, nil, errors.New("the kernel sent half a message")
	}
	attrs, err := nl.ParseRouteAttr(m[header:])
	return slices.Clone(m[:header]), attrs, nlmsg.ByNumber(attrs), err
}

// indexOf is the number of the device of an address or a neighbour.
func indexOf(header []byte) int { return int(binary.NativeEndian.Uint32(header[4:])) }

func setIndex(header []byte, index int) { binary.NativeEndian.PutUint32(header[4:], uint32(index)) }

// passingFlags are those of an address that nobody can set: whether others have it is being found
// out, and whether the kernel chose it.
const passingFlags = unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED | unix.IFA_F_OPTIMISTIC | unix.IFA_F_STABLE_PRIVACY

// cardAddresses lists the addresses of a device, and which of them end by themselves.
func cardAddresses(index int) (all []cardMessage, lent []string, err error) {
	for _, family := range ipFamilies {
		messages, err := dumpMessages(unix.RTM_GETADDR, unix.RTM_NEWADDR, append(rawMessage{family}, make([]byte, addressHeader-1)...))
		if err != nil {
			return nil, nil, fmt.Errorf("list addresses: %w", err)
		}
		for _, m := range messages {
			header, attrs, by, err := split(m, addressHeader)
			if err != nil {
				return nil, nil, err
			}
			if indexOf(header) != index {
				continue
			}
			setIndex(header, 0)
			header[2] &^= passingFlags & math.MaxUint8 // it has the first of them
			for i, a := range attrs {
				if nlmsg.Number(a.Attr.Type) == unix.IFA_FLAGS && len(a.Value) == 4 {
					attrs[i].Value = nl.Uint32Attr(nlmsg.NativeUint32(a.Value) &^ passingFlags)
				}
			}
			addr := by.Bytes(unix.IFA_LOCAL)
			if addr == nil {
				addr = by.Bytes(unix.IFA_ADDRESS)
			}
			text := prefixText(addr, header[1])
			// struct ifa_cacheinfo begins with for how long it is preferred, and valid.
			switch times := by.Bytes(unix.IFA_CACHEINFO); {
			case len(times) >= 8 && nlmsg.NativeUint32(times[4:]) != math.MaxUint32:
				lent = append(lent, "address "+text+" has a lifetime (from DHCP or a router advertisement)")
			case len(times) >= 8 && nlmsg.NativeUint32(times) != math.MaxUint32, header[2]&unix.IFA_F_DEPRECATED != 0:
				lent = append(lent, "address "+text+" is deprecated, or will be (preferred_lft)")
			}
			all = append(all, cardMessage{text, canonical(header, attrs, unix.IFA_CACHEINFO)})
		}
	}
	return all, lent, nil
}

// prefixText is an address with its length, for people.
func prefixText(addr net.IP, bits byte) string {
	a, ok := netip.AddrFromSlice(addr)
	if !ok {
		return "default"
	}
	return netip.PrefixFrom(a, int(bits)).String()
}

// routeNextHopID is the attribute of a route whose next hop is an object of its own (RTA_NH_ID),
// which x/sys does not have.
const routeNextHopID = 30

// cardRoutes lists the routes by a device, but for those that the kernel makes for addresses
// of its own, and says which could not be made again. Routes to different destinations are in
// an order of their own: the kernel's tells what was before. Of those to one the first counts.
func cardRoutes(index int) (all []cardMessage, unkept []string, err error) {
	destinations := map[string][]cardMessage{}
	for _, family := range ipFamilies {
		messages, err := dumpMessages(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, append(rawMessage{family}, make([]byte, routeHeader-1)...))
		if err != nil {
			return nil, nil, fmt.Errorf("list routes: %w", err)
		}
		for _, m := range messages {
			header, attrs, by, err := split(m, routeHeader)
			if err != nil {
				return nil, nil, err
			}
			table := nlmsg.NativeUint32(by.Bytes(unix.RTA_TABLE))
			ways := nextHopDevices(by.Bytes(unix.RTA_MULTIPATH))
			if table == unix.RT_TABLE_LOCAL && header[5] == unix.RTPROT_KERNEL || int(nlmsg.NativeUint32(by.Bytes(unix.RTA_OIF))) != index && !slices.Contains(ways, index) {
				continue
			}
			text := prefixText(by.Bytes(unix.RTA_DST), header[1])
			if times := by.Bytes(unix.RTA_CACHEINFO); len(times) >= 12 && nlmsg.NativeUint32(times[8:]) != 0 || header[5] == unix.RTPROT_RA {
				unkept = append(unkept, "route "+text+" has a lifetime (from a router advertisement)")
			} else if len(ways) > 0 || by.Has(routeNextHopID) {
				unkept = append(unkept, "route "+text+" has several next hops, or a next hop object (nhid)")
			}
			flags := binary.NativeEndian.Uint32(header[8:]) & (unix.RTNH_F_ONLINK | unix.RTNH_F_PERVASIVE)
			binary.NativeEndian.PutUint32(header[8:], flags)
			to := fmt.Sprint(header[:4], table, by.Bytes(unix.RTA_DST), by.Bytes(unix.RTA_SRC), by.Bytes(unix.RTA_PRIORITY))
			destinations[to] = append(destinations[to], cardMessage{text, canonical(header, attrs, unix.RTA_OIF, unix.RTA_CACHEINFO)})
		}
	}
	for _, to := range slices.Sorted(maps.Keys(destinations)) {
		all = append(all, destinations[to]...)
	}
	return all, unkept, nil
}

// nextHopDevices lists the numbers of the devices of a route with several next hops.
func nextHopDevices(hops []byte) (devices []int) {
	for len(hops) >= unix.SizeofRtNexthop {
		n := int(binary.NativeEndian.Uint16(hops))
		if n < unix.SizeofRtNexthop {
			break
		}
		devices = append(devices, indexOf(hops))
		hops = hops[min((n+3)&^3, len(hops)):]
	}
	return devices
}

// cardNeighbours lists the neighbours of a device that somebody has set, and the addresses that
// it answers for, in an order of their own: the kernel's tells in which they were added.
func cardNeighbours(index int) (all []cardMessage, err error) {
	for _, family := range ipFamilies {
		for _, flags := range []byte{0, unix.NTF_PROXY} {
			header := append(rawMessage{family}, make([]byte, neighbourHeader-1)...)
			header[10] = flags
			messages, err := dumpMessages(unix.RTM_GETNEIGH, unix.RTM_NEWNEIGH, header)
			if err != nil {
				return nil, fmt.Errorf("list neighbours: %w", err)
			}
			for _, m := range messages {
				header, attrs, by, err := split(m, neighbourHeader)
				if err != nil {
					return nil, err
				}
				set := binary.NativeEndian.Uint16(header[8:])&unix.NUD_PERMANENT != 0 || header[10]&unix.NTF_PROXY != 0
				if indexOf(header) != index || !set {
					continue
				}
				setIndex(header, 0)
				addr, _ := netip.AddrFromSlice(by.Bytes(unix.NDA_DST))
				all = append(all, cardMessage{addr.String(), canonical(header, attrs, unix.NDA_CACHEINFO, unix.NDA_PROBES)})
			}
		}
	}
	slices.SortFunc(all, func(a, b cardMessage) int { return bytes.Compare(a.Message, b.Message) })
	return all, nil
}
