package host

import (
	"os"
	"strconv"
	"strings"
)

// CPUCounters are what one CPU has done since the machine was started. Times
// are in ticks of 10 ms.
type CPUCounters struct {
	Total, Softirq, Steal      uint64 // from /proc/stat
	Packets, Dropped, Squeezed uint64 // from /proc/net/softnet_stat; 32 bits, so they wrap
	NetRX                      uint64 // softirqs that received, from /proc/softirqs
}

// CPUCounters reads the counters of all CPUs by their numbers. What cannot be
// read is left out.
func (r Reader) CPUCounters() map[int]CPUCounters {
	cpus := map[int]CPUCounters{}
	for line := range r.fields("proc/stat") {
		name, isCPU := strings.CutPrefix(line[0], "cpu")
		n, err := strconv.Atoi(name)
		if !isCPU || err != nil || len(line) < 9 {
			continue
		}
		c := cpus[n]
		for i, text := range line[1:9] { // guest time, behind these, is in user time already
			v, _ := strconv.ParseUint(text, 10, 64)
			c.Total += v
			switch i {
			case 6:
				c.Softirq = v
			case 7:
				c.Steal = v
			}
		}
		cpus[n] = c
	}
	r.softnet(cpus)
	r.softirqs(cpus)
	return cpus
}

// cpuColumn is the column of softnet_stat that says whose line it is, on
// kernels since 5.10: lines of CPUs that are off are left out.
const cpuColumn = 12

func (r Reader) softnet(cpus map[int]CPUCounters) {
	next := 0
	for line := range r.fields("proc/net/softnet_stat") {
		n := next
		next++
		if len(line) < 3 {
			continue
		}
		value := func(column int) uint64 {
			v, _ := strconv.ParseUint(line[column], 16, 64)
			return v
		}
		if len(line) > cpuColumn {
			n = int(value(cpuColumn))
		}
		c := cpus[n]
		c.Packets, c.Dropped, c.Squeezed = value(0), value(1), value(2)
		cpus[n] = c
	}
}

func (r Reader) softirqs(cpus map[int]CPUCounters) {
	var order []int
	for line := range r.fields("proc/softirqs") {
		switch {
		case strings.HasPrefix(line[0], "CPU"):
			for _, name := range line {
				n, _ := strconv.Atoi(strings.TrimPrefix(name, "CPU"))
				order = append(order, n)
			}
		case line[0] == "NET_RX:":
			for i, text := range line[1:] {
				if i < len(order) {
					c := cpus[order[i]]
					c.NetRX, _ = strconv.ParseUint(text, 10, 64)
					cpus[order[i]] = c
				}
			}
		}
	}
}

// Protocols reads the counters of TCP and UDP of the calling thread's
// namespace, by names such as "Tcp/InCsumErrors".
func (r Reader) Protocols() map[string]uint64 { return r.protocols("snmp") }

// ProtocolsMore reads further ones, which are Linux' own, by names such as
// "TcpExt/TCPDSACKRecv".
func (r Reader) ProtocolsMore() map[string]uint64 { return r.protocols("netstat") }

func (r Reader) protocols(file string) map[string]uint64 {
	counters := map[string]uint64{}
	var names []string
	for line := range r.fields("proc/thread-self/net", file) {
		if names == nil || names[0] != line[0] {
			names = line
			continue
		}
		for i := 1; i < min(len(line), len(names)); i++ {
			if v, err := strconv.ParseUint(line[i], 10, 64); err == nil {
				counters[strings.TrimSuffix(line[0], ":")+"/"+names[i]] = v
			}
		}
		names = nil
	}
	return counters
}

// fields gives the lines of a file that are not empty, as their words. A file
// that cannot be read has none.
func (r Reader) fields(parts ...string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		text, _ := os.ReadFile(r.path(parts...))
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 0 && !yield(words) {
				return
			}
		}
	}
}
