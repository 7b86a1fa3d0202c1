package stack

import (
	"strconv"

	"github.com/venturi-net/venturi/internal/knob"
)

// maxBuffer is the largest buffer of a socket that the kernel takes, bytes.
const maxBuffer = 1<<31 - 1

// tcpMem is how far TCP lets the buffers of a connection grow by itself.
var tcpMem = knob.Entry{
	Facts: knob.Facts{
		Name:     "tcp.mem",
		Title:    "How far TCP may grow the buffers of a connection",
		Values:   "bytes: rmem=16777216,wmem=16777216 (receive and send), or one number for both",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Throughput},
		Risk:     "memory; long queues at the sender, which add latency",
		Needs:    "a long or very fast link: bandwidth times round trip above the present value. Useless within a rack",
		Grade:    knob.GradeC,
		Evidence: "tuned sets 16 MiB, ESnet up to 2 GiB for 100 Gbit/s and long links; useless at the round trips of a LAN",
		Undo:     "the old values are written back; open connections keep what they have grown to",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"rmem", sysctl{name: "net.ipv4.tcp_rmem", field: 3, check: knob.Number(4096, maxBuffer)}},
			{"wmem", sysctl{name: "net.ipv4.tcp_wmem", field: 3, check: knob.Number(4096, maxBuffer)}},
		},
		all:    true,
		trials: []string{"16777216", "67108864"},
		note:   "a namespace copies it from the machine when it is made: pods that run keep theirs, set it in their namespaces",
	},
}

// sockMem bounds what programs may ask for, of TCP and of UDP.
var sockMem = knob.Entry{
	Facts: knob.Facts{
		Name:     "sock.mem",
		Title:    "Socket buffers: what a program may request, and the default (as for UDP)",
		Values:   "bytes: rmem_max=16777216,wmem_max=16777216,rmem_default=262144,wmem_default=262144, or some of them",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Throughput, knob.Drops},
		Risk:     "memory",
		Needs:    "a program that sets SO_RCVBUF or SO_SNDBUF, or UDP sockets that drop (UdpRcvbufErrors of /proc/net/snmp grows). TCP grows by itself, see tcp.mem",
		Grade:    knob.GradeC,
		Evidence: "ESnet recommends it for 10 Gbit/s and more, without a number for a LAN",
		Undo:     "the old values are written back; open sockets keep theirs",
	},
	Knob: sysctlGroup{
		parts: []groupMember{
			{"rmem_max", sysctl{name: "net.core.rmem_max", global: true, check: knob.Number(2304, maxBuffer)}},
			{"wmem_max", sysctl{name: "net.core.wmem_max", global: true, check: knob.Number(4608, maxBuffer)}},
			{"rmem_default", sysctl{name: "net.core.rmem_default", global: true, check: knob.Number(2304, maxBuffer)}},
			{"wmem_default", sysctl{name: "net.core.wmem_default", global: true, check: knob.Number(4608, maxBuffer)}},
		},
		trials: []string{"rmem_max=16777216,wmem_max=16777216", "rmem_default=1048576,wmem_default=1048576"},
		note:   "it holds for pods too: the machine has one value for all namespaces",
	},
}

// udpMem bounds the memory of all UDP sockets together.
var udpMem = knob.Entry{
	Facts: knob.Facts{
		Name:     "udp.mem",
		Title:    "Memory of all UDP sockets together, at most",
		Values:   "pages (getconf PAGESIZE), such as 1500000",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Drops},
		Risk:     "memory that nothing else can use",
		Needs:    "UdpMemErrors of /proc/net/snmp grows: rare, because the kernel's default is an eighth of the host's memory",
		Grade:    knob.GradeC,
		Evidence: "bpftune raises it when UDP comes near it, without a number",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: "net.ipv4.udp_mem", global: true, field: 3, check: knob.Number(1, maxBuffer), steps: doubled, note: "it holds for pods too: the machine has one value for all namespaces"},
}

// doubled is the one value worth a trial that is double the present one.
func doubled(now string) []string {
	n, err := strconv.Atoi(now)
	if err != nil || n > maxBuffer/2 {
		return nil
	}
	return []string{strconv.Itoa(2 * n)}
}
