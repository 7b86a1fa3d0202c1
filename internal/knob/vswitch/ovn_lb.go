package vswitch

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// ovnLB is whether logical switches balance Services.
var ovnLB = knob.Entry{
	Facts: knob.Facts{
		Name:       "ovn.lb",
		Title:      "Whether OVN's logical switches have load balancers, for which every packet is tracked",
		Values:     "off; undo turns it on again",
		Scope:      knob.ScopeSwitch,
		Helps:      []knob.Benefit{knob.CPU, knob.Latency, knob.Packets},
		Risk:       "Services stop where nothing else (kube-proxy) implements them: always in underlays and custom VPCs",
		Needs:      "the socket of the northbound database, and kube-proxy. Kube-OVN's controller adds the balancers again: there, use its argument --enable-lb, see kubeovn.lb",
		Grade:      knob.GradeB,
		Evidence:   "about 20 % of CPU (Kube-OVN's documentation); all traffic of a switch with one is tracked (kube-ovn issue 1155)",
		Undo:       "each logical switch gets its old balancers back; one that was deleted meanwhile stays deleted, and is reported",
		ManualOnly: "Services may depend on it",
	},
	Knob: balancing{},
}

// balancing is the knob of load balancers.
type balancing struct{}

// Get is of [knob.Knob].
func (balancing) Get(_ knob.Machine, t knob.Target) (knob.Reading, error) {
	all, switches, err := ovs.Balancers(t.Switch)
	if err != nil {
		return knob.Reading{}, noDatabase("OVN's northbound", err)
	}
	if all == 0 {
		return knob.Reading{}, verr.New(verr.Missing, "cannot use this knob here", "OVN has no load balancer", "leave it alone here")
	}
	r := knob.Reading{Value: knob.Off}
	with := 0
	for _, s := range switches {
		if s.Count > 0 {
			with++
			r.Value = knob.On
		}
	}
	r.Note = fmt.Sprintf("%d load balancers; %d of %d logical switches have some", all, with, len(switches))
	return r, nil
}

// Plan is of [knob.Knob].
func (k balancing) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	now, err := k.Get(m, t)
	if err != nil || value == now.Value {
		return nil, err
	}
	if value != knob.Off {
		return nil, verr.New(verr.Usage, "cannot set ovn.lb to "+value, "which load balancers a switch had, only the journal knows", "set it to off, or bring back what was with: venturi undo")
	}
	_, switches, err := ovs.Balancers(t.Switch)
	var writes []setting.Write
	for _, s := range switches {
		if s.Count > 0 {
			writes = append(writes, setting.Write{Setting: s.Setting, Value: setting.Text("")})
		}
	}
	return writes, err
}

// Range is of [knob.Ranger].
func (k balancing) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil || now.Value == knob.Off {
		return nil, err
	}
	return []string{knob.Off}, nil
}
