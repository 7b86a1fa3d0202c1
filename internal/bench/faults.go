package bench

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// Fault is a wrong setting on a path, which a proof must find.
type Fault struct {
	Name  string
	Title string
	Path  string // what is measured
	Wire  string
	// Profile that a proof is made for; none: balanced.
	Profile string
	Knob    string // that is turned the wrong way
	Groups  []tune.Group
	Bad     string
	Good    string
	// WholeMachine: the fault affects the whole machine, which must be a virtual one of
	// ours. It is planted only if it is named.
	WholeMachine bool
	// Mixed: on two cores, correcting it costs as much as it brings, and a proof is right
	// to leave it. It, too, is planted only if it is named.
	Mixed bool
}

// Faults are those that a proof must find, on paths on which each of them matters.
func Faults(lastCPU int) []Fault {
	return []Fault{
		{Name: "csum", Title: "checksum offload off on the tunnel device", Path: "vxlan",
			Knob: "virt.tx_csum", Groups: []tune.Group{tune.Tunnels}, Bad: "off", Good: "on"},
		// Not on the wire: a veth that merges hands packets on in another way, which small
		// ones pay for.
		{Name: "gro", Title: "GRO off on a tunnel device that does not get whole segments", Path: "vxlan", Wire: "tso=off", Profile: "throughput",
			Knob: "nic.gro", Groups: []tune.Group{tune.Tunnels}, Bad: "off", Good: "on"},
		{Name: "seg", Title: "segmentation offload off on the pods' devices", Path: "vxlan",
			Knob: "nic.seg", Groups: []tune.Group{tune.Veths}, Bad: "off", Good: "on"},
		// Its pacing is what costs, a timer for each piece that is sent: with small ones much,
		// beside a tunnel's work nothing that shows.
		{Name: "bbr", Title: "bbr in place of reno, on cards that take 16,000 B at once", Path: "host", Wire: "gso-max-size=16000", Profile: "throughput",
			Knob: "tcp.cc", Groups: []tune.Group{tune.Machines}, Bad: "bbr", Good: "reno"},
		// Datagrams starve their receiver, whose core it is; a stream's work is spread
		// better than before.
		{Name: "rps", Title: "RPS sends all packets to one core", Path: "vxlan", Mixed: true,
			Knob: "net.rps", Groups: []tune.Group{tune.NICs, tune.Veths, tune.Tunnels}, Bad: strconv.Itoa(lastCPU), Good: "off"},
		{Name: "backlog", Title: "a queue of one packet for each core", Path: "vxlan", WholeMachine: true,
			Knob: "net.backlog", Groups: []tune.Group{tune.Host}, Bad: "1", Good: "1000"},
	}
}

// findFault gives a fault by its name.
func findFault(name string, lastCPU int) (Fault, error) {
	var names []string
	for _, f := range Faults(lastCPU) {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Fault{}, verr.New(verr.Usage, fmt.Sprintf("unknown fault %q", name), "there is none of that name", "choose from: "+strings.Join(names, ", "))
}

// assignments set one value of the fault's knob on everything that the fault is planted
// on. Devices without the knob are skipped.
func (f Fault) assignments(m knob.Machine, t tune.Targets, value string) ([]tune.Assignment, error) {
	entry, err := table.Find(f.Knob)
	if err != nil {
		return nil, err
	}
	var assignments []tune.Assignment
	var why error
	for _, g := range f.Groups {
		for _, on := range t.InGroup(g) {
			if _, err := entry.Get(m, on); err != nil {
				why = err
				continue
			}
			assignments = append(assignments, tune.Assignment{Knob: entry, Target: on, Value: value})
		}
	}
	if len(assignments) == 0 && why != nil {
		return nil, fmt.Errorf("plant %s: %w", f.Name, why)
	}
	return assignments, nil
}

// placebos are settings that guides to tuning are full of, and that cannot matter
// to connections that are open: on each, a proof must say that nothing was shown.
var placebos = []struct {
	knob  string // of the table; or else
	name  string // a sysctl of a namespace
	on    tune.Group
	value string
}{
	{knob: "tcp.fastopen", on: tune.Pods, value: "3"},
	{knob: "net.listen", on: tune.Pods, value: "8192"},
	{knob: "nic.txqueuelen", on: tune.Veths, value: "10000"},
	{name: "net.ipv4.tcp_fin_timeout", on: tune.Pods, value: "15"},
	{name: "net.ipv4.tcp_tw_reuse", on: tune.Pods, value: "1"},
	{name: "net.ipv4.tcp_keepalive_time", on: tune.Pods, value: "600"},
	{name: "net.ipv4.ip_local_port_range", on: tune.Pods, value: "1024 65000"},
	{name: "net.ipv4.tcp_max_tw_buckets", on: tune.Pods, value: "200000"},
	{name: "net.ipv4.tcp_synack_retries", on: tune.Pods, value: "2"},
	{name: "net.ipv4.tcp_retries2", on: tune.Pods, value: "8"},
}

// placeboCandidates are all placebos, one candidate each.
func placeboCandidates(m knob.Machine, t tune.Targets) ([]tune.Candidate, error) {
	var all []tune.Candidate
	for _, p := range placebos {
		entry := knob.Entry{Facts: knob.Facts{Name: p.name, Scope: knob.ScopeNetns}, Knob: sysctlKnob(p.name)}
		if p.knob != "" {
			var err error
			if entry, err = table.Find(p.knob); err != nil {
				return nil, err
			}
		}
		c := tune.Candidate{Name: "placebo " + entry.Name}
		targets := t.InGroup(p.on)
		if len(targets) == 0 { // the host's own network has no pods
			targets = t.InGroup(map[tune.Group]tune.Group{tune.Pods: tune.Machines, tune.Veths: tune.NICs}[p.on])
		}
		for _, on := range targets {
			c.Assignments = append(c.Assignments, tune.Assignment{Knob: entry, Target: on, Value: p.value})
		}
		if len(c.Assignments) > 0 {
			all = append(all, c)
		}
	}
	return all, nil
}

// sysctlKnob is a sysctl as a knob.
type sysctlKnob string

func (s sysctlKnob) setting(t knob.Target) (setting.Setting, error) {
	scope, err := t.Scope()
	return setting.Sysctl(scope, string(s)), err
}

// Get is of [knob.Knob].
func (s sysctlKnob) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	c, err := s.setting(t)
	if err != nil {
		return knob.Reading{}, err
	}
	v, err := m.Settings.Read(c)
	return knob.Reading{Value: strings.Join(strings.Fields(v.String()), " ")}, err
}

// Plan is of [knob.Knob].
func (s sysctlKnob) Plan(_ knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	c, err := s.setting(t)
	return []setting.Write{{Setting: c, Value: setting.Text(value)}}, err
}
