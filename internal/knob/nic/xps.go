package nic

import (
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// netXPS says which transmit queue a packet takes.
var netXPS = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.xps",
		Title:    "Which cores use which transmit queue (XPS)",
		Values:   `cores to spread the queues over, such as 0-3; or for each queue, such as "tx-0=0 tx-1=1"; rxqs: each queue sends what the receive queue of the same number received; off`,
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Packets, knob.CPU},
		Risk:     "packets of a flow can be reordered when its process moves to another core",
		Needs:    "a device with several transmit queues; drivers of network cards mostly set it themselves",
		Grade:    knob.GradeC,
		Evidence: "the kernel's scaling guide recommends one queue to a core, without a number",
		Undo:     "the old masks are written back",
	},
	Knob: xps{},
}

type xps struct{}

const (
	xpsCPUs  = "queues/tx-*/xps_cpus"
	xpsQueue = "queues/tx-*/xps_rxqs"
	byQueue  = "rxqs" // the kernel asks these masks first
)

// Get is of [knob.Knob].
func (xps) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	queues, err := knob.ReadMasks(m, t, xpsCPUs)
	if err != nil {
		return knob.Reading{}, err
	}
	cores := knob.FormatLists(queues)
	received, err := knob.ReadMasks(m, t, xpsQueue)
	if verr.Code(err) == verr.Missing { // kernels before 4.18
		return knob.Reading{Value: cores}, nil
	}
	if err != nil {
		return knob.Reading{}, err
	}
	switch each := knob.FormatLists(received); {
	case each == knob.Off:
		return knob.Reading{Value: cores}, nil
	case each == knob.FormatLists(oneToOne(received)):
		return knob.Reading{Value: byQueue, Note: "xps_cpus is " + cores + ", and not asked"}, nil
	default:
		return knob.Reading{Value: byQueue + " " + each, Note: "xps_cpus is " + cores + ", and not asked"}, nil
	}
}

// oneToOne gives each queue the number that it has itself.
func oneToOne(queues []knob.Queue) []knob.Queue {
	own := make([]knob.Queue, len(queues))
	for i, q := range queues {
		own[i] = q
		own[i].Value = strings.TrimPrefix(q.Name, "tx-")
	}
	return own
}

// Plan is of [knob.Knob].
func (xps) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	queues, err := knob.ReadMasks(m, t, xpsCPUs)
	if err != nil {
		return nil, err
	}
	received, err := knob.ReadMasks(m, t, xpsQueue)
	if err != nil && verr.Code(err) != verr.Missing {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(value, byQueue); ok {
		return planReceived(value, strings.TrimSpace(rest), received)
	}
	lists, err := knob.ParseLists(value, queues, func(list string) ([]string, error) { return share(list, len(queues)) })
	if err != nil {
		return nil, knob.BadValue("net.xps", value, err)
	}
	writes, err := knob.MaskWrites(queues, lists, knob.CoreCount(m))
	if err == nil {
		err = knob.CheckCores(lists, knob.OnlineCores(m), "is off: the kernel leaves it out")
	}
	if err != nil {
		return nil, knob.BadValue("net.xps", value, err)
	}
	for _, q := range received {
		writes = append(writes, setting.Write{Setting: q.Setting, Value: setting.Text("0")})
	}
	return writes, nil
}

// planReceived plans that queues send what receive queues brought: rest says
// which, or is empty for one to one.
func planReceived(value, rest string, received []knob.Queue) ([]setting.Write, error) {
	if len(received) == 0 {
		return nil, verr.New(verr.Missing, "cannot set net.xps to "+value, "this kernel has no xps_rxqs", "set cores instead")
	}
	rx, err := setting.DeviceFiles(received[0].Setting.Scope, "queues/rx-*")
	if err != nil {
		return nil, err
	}
	if rest == "" {
		rest = knob.FormatLists(oneToOne(received[:min(len(received), len(rx))]))
	}
	lists, err := knob.ParseLists(rest, received, func(list string) ([]string, error) { return share(list, len(received)) })
	if err != nil {
		return nil, knob.BadValue("net.xps", value, err)
	}
	writes, err := knob.MaskWrites(received, lists, len(rx))
	if err != nil {
		return nil, knob.BadValue("net.xps", value, err)
	}
	return writes, nil
}

// share deals the numbers of a list out to queues, one by one. Where there are
// more queues, numbers come again.
func share(list string, queues int) ([]string, error) {
	shares := make([]string, queues)
	if list == knob.Off {
		for i := range shares {
			shares[i] = list
		}
		return shares, nil
	}
	numbers, err := host.ParseNumbers(list)
	if err != nil {
		return nil, err
	}
	parts := make([][]string, queues)
	for i := range max(queues, len(numbers)) {
		parts[i%queues] = append(parts[i%queues], strconv.Itoa(numbers[i%len(numbers)]))
	}
	for i, p := range parts {
		shares[i] = strings.Join(p, ",")
	}
	return shares, nil
}

// Range is of [knob.Ranger]: one queue to a core.
func (k xps) Range(m knob.Machine, t knob.Target) ([]string, error) {
	queues, err := knob.ReadMasks(m, t, xpsCPUs)
	on := knob.OnlineCores(m)
	if err != nil || len(queues) < 2 || len(on) < 2 {
		return nil, err
	}
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	shares, err := share(host.FormatNumbers(on), len(queues))
	for i := range shares {
		queues[i].Value = shares[i]
	}
	return knob.OtherThan(knob.FormatLists(queues))(now.Value), err
}
