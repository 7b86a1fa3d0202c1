package topology

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nft"
)

// LeastTimeout is the least time, in seconds, that connection tracking must keep connections without packets. With less,
// those that are carried would end before the fast path has prolonged them.
const LeastTimeout = 20

// Timeouts are the sysctls net.netfilter.nf_conntrack_* with the times that packets of carried connections give
// these, that of established ones first.
var (
	UnrepliedUDPTimeouts = []string{"udp_timeout"}
	UDPTimeouts          = []string{"udp_timeout_stream"}
	TCPTimeouts          = []string{"tcp_timeout_established", "tcp_timeout_unacknowledged", "tcp_timeout_max_retrans"}
)

// timeouts are the files of all of them.
var timeouts = func() (files []string) {
	for _, name := range slices.Concat(UnrepliedUDPTimeouts, UDPTimeouts, TCPTimeouts) {
		files = append(files, "netfilter/nf_conntrack_"+name)
	}
	return files
}()

// polledSysctls are the sysctls of a namespace that affect packets and whose changes send no
// notification.
var polledSysctls = map[Family][]string{
	IPv4: append([]string{"bridge/bridge-nf-call-iptables", updatesPriority, refusesUnknown, "bridge/bridge-nf-filter-vlan-tagged", "ipv4/ip_default_ttl", "ipv4/ip_forward_use_pmtu",
		"ipv4/conf/all/src_valid_mark", "ipv4/conf/all/accept_local", "ipv4/conf/all/route_localnet"}, timeouts...),
	IPv6: append([]string{"bridge/bridge-nf-call-ip6tables", refusesUnknown, "bridge/bridge-nf-filter-vlan-tagged"}, timeouts...),
}

// legacyTables are the files with the loaded tables of legacy iptables.
var legacyTables = map[Family]string{IPv4: nft.LegacyTablesFile, IPv6: nft.LegacyTables6File}

const (
	// BridgesAsk is which of [Poller.Sysctls] has packets on all bridges meet the rules for IP.
	BridgesAsk = 0
	// updatesPriority is whether forwarding derives the priority of packets from their TOS.
	updatesPriority = "ipv4/ip_forward_update_priority"
	// refusesUnknown is whether IPVS drops what its servers send outside of its connections, of either
	// version of IP.
	refusesUnknown = "ipv4/vs/nat_icmp_send"
)

// refusedSysctls are values of sysctls with which packets are treated in another way than carried ones.
var refusedSysctls = []struct{ name, value, why string }{
	{updatesPriority, "0", "the sysctl net.ipv4.ip_forward_update_priority is 0, so packets keep their priority when they are forwarded"},
	{refusesUnknown, "1", "the sysctl net.ipv4.vs.nat_icmp_send is 1, so IPVS drops packets that its servers send outside of its connections"},
}

// Poller polls state of a namespace whose changes send no notification. It polls often, so it keeps
// its files and sockets open: opening one costs several times as much as reading it.
type Poller struct {
	Hooks   *audit.HookPoller
	family  Family
	sysctls []host.PolledFile
	acct    host.PolledFile
	legacy  host.PolledFile
	snmp    host.PolledFile
	snmp6   host.PolledFile
	querier *rtnlQuerier
}

// snmpFile holds counters of IP and ICMP. It is read less often than the others, because the kernel
// adds up all counters of all cores.
const (
	snmpFile  = "/proc/thread-self/net/snmp"
	snmpSize  = 4096
	snmp6File = "/proc/thread-self/net/snmp6" // of IPv6
	snmp6Size = 16384
)

// OpenPoller opens a poller of the calling thread's namespace, for packets of a family.
func OpenPoller(family Family) (*Poller, error) {
	p := &Poller{
		family: family,
		acct:   host.PolledFile{Path: "/proc/sys/net/netfilter/nf_conntrack_acct"},
		legacy: host.PolledFile{Path: legacyTables[family]}, snmp: host.PolledFile{Path: snmpFile, Size: snmpSize},
		snmp6: host.PolledFile{Path: snmp6File},
	}
	if family == IPv6 {
		p.snmp6.Size = snmp6Size
	}
	for _, name := range polledSysctls[family] {
		p.sysctls = append(p.sysctls, host.PolledFile{Path: filepath.Join("/proc/sys/net", name)})
	}
	if err := p.dial(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Poller) dial() (err error) {
	if p.Hooks, err = audit.OpenHookPoller(p.family); err != nil {
		return err
	}
	p.querier, err = openRtnlQuerier()
	return err
}

// Close closes the poller's files and sockets.
func (p *Poller) Close() {
	for i := range p.sysctls {
		p.sysctls[i].Close()
	}
	p.acct.Close()
	p.legacy.Close()
	p.snmp.Close()
	p.snmp6.Close()
	if p.Hooks != nil {
		p.Hooks.Close()
	}
	if p.querier != nil {
		p.querier.Close()
	}
}

// Sysctls reads the sysctls that affect packets. A sysctl that does not exist is empty.
func (p *Poller) Sysctls() []string {
	values := make([]string, len(p.sysctls))
	for i := range p.sysctls {
		values[i], _ = p.sysctls[i].Read()
	}
	return values
}

// SysctlRefusal says which value of [Poller.Sysctls] keeps everything slow; empty means none.
func (p *Poller) SysctlRefusal(sysctls []string) string {
	for _, name := range timeouts {
		i := slices.Index(polledSysctls[p.family], name)
		if seconds, err := strconv.Atoi(strings.TrimSpace(sysctls[i])); err == nil && seconds < LeastTimeout {
			return fmt.Sprintf("the sysctl net.%s is %d s, so connections could expire while they are carried: it must be at least %d s", strings.ReplaceAll(name, "/", "."), seconds, LeastTimeout)
		}
	}
	for _, r := range refusedSysctls {
		if i := slices.Index(polledSysctls[p.family], r.name); i >= 0 && strings.TrimSpace(sysctls[i]) == r.value {
			return r.why
		}
	}
	return ""
}

// CountsConnections reports whether connection tracking counts the packets and bytes of connections.
func (p *Poller) CountsConnections() bool {
	value, err := p.acct.Read() // where nothing is tracked, there is no such file
	return err == nil && strings.TrimSpace(value) != "0"
}

// LegacyTables lists the loaded tables of legacy iptables, by name.
func (p *Poller) LegacyTables() ([]string, error) {
	names, err := p.legacy.Read()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return strings.Fields(names), nil
}

// PodsChanged reports whether the MTU of a pod's own device differs from what [Read] found, or the
// device has an XDP program now, or no longer; or whether it is gone, or cannot be read.
func (p *Poller) PodsChanged(pods []LocalPod) bool {
	return slices.ContainsFunc(pods, func(pod LocalPod) bool {
		if pod.PodEnd == (PodEnd{}) {
			return false
		}
		now, err := p.querier.podEnd(pod.PodEnd.NSID, pod.PodEnd.Index)
		return err != nil || now != pod.PodEnd
	})
}

// Unreachables counts the ICMP messages received that say that a destination, or a packet of its
// size, does not get through: routes learn path MTUs from nothing else.
func (p *Poller) Unreachables() (string, error) {
	if p.family == IPv6 {
		return p.counter6("Icmp6InPktTooBigs")
	}
	text, err := p.snmp.Read()
	if err != nil {
		return "", err
	}
	return snmpCounter(text, "Icmp:", "InDestUnreachs"), nil
}

// Advertisements counts the router advertisements received. One may give a route a lifetime, which sends no
// notification.
func (p *Poller) Advertisements() (string, error) { return p.counter6("Icmp6InRouterAdvertisements") }

// counter6 reads a counter of IPv6.
func (p *Poller) counter6(name string) (string, error) {
	text, err := p.snmp6.Read()
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(text, name)
	count, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(count), nil
}

// snmpCounter finds a counter in a file whose lines come in pairs: names, and below them values.
func snmpCounter(text, group, name string) string {
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != group {
			continue
		}
		if i := slices.Index(names, name); i > 0 && i < len(fields) {
			return fields[i]
		}
		names = fields
	}
	return ""
}

// PathMTUsChanged reports whether the MTU of the way to a peer differs from what [Read] found. No
// notification is sent when a route learns a path MTU.
func (p *Poller) PathMTUsChanged(peers []NextHop) bool {
	return slices.ContainsFunc(peers, func(hop NextHop) bool {
		if hop.Encap == nil {
			return false // the pods themselves handle the path MTU beyond the peer
		}
		route, err := p.querier.routeOf(hop.Encap)
		return err != nil || route.mtu != hop.RouteMTU
	})
}
