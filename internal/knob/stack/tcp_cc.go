package stack

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// tcpCC is the algorithm by which TCP chooses how fast to send.
var tcpCC = knob.Entry{
	Facts: knob.Facts{
		Name:     "tcp.cc",
		Title:    "TCP's congestion control",
		Values:   "the name of one, such as cubic, reno, bbr or dctcp",
		Scope:    knob.ScopeNetns,
		Helps:    []knob.Benefit{knob.Throughput, knob.Latency},
		Risk:     "unfair to others on the same link; more retransmits",
		Needs:    "one that is available in the namespace (net.ipv4.tcp_available_congestion_control). bbr and its like need qdisc fq on the device; dctcp needs switches that mark ECN",
		Grade:    knob.GradeB,
		Evidence: "58 to 490 Mbit/s with bbr at 10 % loss; on a clean link dctcp was best (bpftune)",
		Undo:     "the old one is written back; open connections keep theirs",
	},
	Knob: congestion{sysctl{name: "net.ipv4.tcp_congestion_control", note: "open sockets keep the one that they began with. A namespace copies it from the machine when it is made: pods that run keep theirs"}},
}

// congestion is the knob of congestion control.
type congestion struct{ sysctl }

// list reads one of the lists beside the sysctl.
func (c congestion) list(m knob.Machine, t knob.Target, name string) ([]string, error) {
	r, err := sysctl{name: name}.Get(m, t)
	return strings.Fields(r.Value), err
}

// choices are the algorithms that the namespace may have, in the kernel's order.
func (c congestion) choices(m knob.Machine, t knob.Target) ([]string, error) {
	all, err := c.list(m, t, "net.ipv4.tcp_available_congestion_control")
	if err != nil {
		return nil, err
	}
	scope, err := setting.NetnsScope(t.Netns)
	if err != nil {
		return nil, knob.BadNetns(t, err)
	}
	if scope.Netns.Path == setting.HomeNetns {
		return all, nil
	}
	// Only the machine's first namespace may have those that are not allowed to
	// everybody, and an algorithm that it takes is from then on.
	allowed, err := c.list(m, t, "net.ipv4.tcp_allowed_congestion_control")
	return slices.DeleteFunc(all, func(a string) bool { return !slices.Contains(allowed, a) }), err
}

// Plan is of [knob.Knob].
func (c congestion) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	writes, err := c.sysctl.Plan(m, t, value)
	if err != nil {
		return nil, err
	}
	choices, err := c.choices(m, t)
	if err != nil {
		return nil, err
	}
	what := "cannot set " + c.name + " to " + value
	if !slices.Contains(choices, value) {
		return nil, verr.New(verr.Missing, what, "here there are "+strings.Join(choices, ", "), "load its module (modprobe tcp_"+value+"), and for a pod allow it on the machine in net.ipv4.tcp_allowed_congestion_control")
	}
	now, err := c.Get(m, t)
	if err == nil && !slices.Contains(choices, now.Value) {
		return nil, verr.New(verr.Missing, what, "the present one, "+now.Value+", is not allowed in this namespace any more, so it could not be brought back", "allow it on the machine in net.ipv4.tcp_allowed_congestion_control")
	}
	return writes, err
}

// Range is of [knob.Ranger].
func (c congestion) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := c.Get(m, t)
	if err != nil {
		return nil, err
	}
	choices, err := c.choices(m, t)
	return slices.DeleteFunc(choices, func(a string) bool { return a == now.Value }), err
}
