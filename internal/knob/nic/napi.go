package nic

import (
	"errors"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// longestTimer is that of NAPI's, ns: longer ones are mistakes.
const longestTimer = 1 << 40

// nicDeferIRQ lets a timer ask for packets in place of the card's interrupts.
var nicDeferIRQ = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.defer_irq",
		Title:    "How often a timer polls a queue before its interrupt is enabled again",
		Values:   "irqs=10,timeout=20000 (polls that found nothing, and ns between them); off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU, knob.Packets},
		Risk:     "a packet that arrives at an idle queue waits for the timer",
		Needs:    "Linux 5.8; a device that is busy most of the time",
		Grade:    knob.GradeB,
		Evidence: "enabling interrupts again cost about 20 % at 100 Gb/s with 32 queues (message of the kernel's commit)",
		Undo:     "the old numbers are written back, of the device and of each NAPI that had its own",
	},
	Knob: deviceNumbers{
		name: "nic.defer_irq", off: true,
		parts: []deviceNumber{
			{"irqs", "net", "napi_defer_hard_irqs", 0, 1<<31 - 1},
			{"timeout", "net", "gro_flush_timeout", 0, longestTimer},
		},
		trials: []string{"off", "irqs=10,timeout=20000", "irqs=2,timeout=100000"},
	},
}

// nicThreadedNAPI gives each queue a thread.
var nicThreadedNAPI = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.napi_threaded",
		Title:    "Whether threads receive packets instead of softirqs",
		Values:   "on, off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput},
		Risk:     "costs CPU: the scheduler may put threads on any core, and they compete with programs",
		Needs:    "Linux 5.12 and a device that uses NAPI; a veth pair does with GRO on. Helps where many tunnels share one core",
		Grade:    knob.GradeB,
		Evidence: "16 WireGuard tunnels went from 13 to 48 Gb/s, and the receiver's CPU from 20 to 100 % (kernel commit db9ae3b)",
		Undo:     "the old state is written back, of the device and of each NAPI that had its own",
	},
	Knob: threaded{},
}

type threaded struct{}

// read gives what the device says, and what each of its NAPIs does.
func (threaded) read(m knob.Machine, t knob.Target) (of setting.Setting, device string, each []knob.Queue, err error) {
	scope, err := knob.DeviceScope(t)
	if err != nil {
		return of, "", nil, err
	}
	of = setting.Setting{Backend: "net", Scope: scope, Key: "threaded"}
	v, err := m.Settings.Read(of)
	if errors.Is(err, os.ErrNotExist) {
		return of, "", nil, verr.New(verr.Missing, "cannot read nic.napi_threaded of "+t.Device, "this kernel does not have it", "it takes Linux 5.12")
	}
	if err != nil {
		return of, "", nil, err
	}
	settings, err := setting.NAPISettings(scope, "threaded")
	if err != nil {
		return of, "", nil, err
	}
	for _, s := range settings {
		v, err := m.Settings.Read(s)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return of, "", nil, err
		}
		each = append(each, knob.Queue{Name: s.Key, Setting: s, Value: strings.TrimSpace(v.String())})
	}
	return of, strings.TrimSpace(v.String()), each, nil
}

// Get is of [knob.Knob]. In effect is what the queues do.
func (k threaded) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, device, each, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: knob.Bit.Parse(device)} // later kernels know more states than two
	for _, q := range each {
		if q.Value != device {
			r.Effective, r.Note = "mixed", "queues of the device are set each by its own"
		}
	}
	return r, nil
}

// Plan is of [knob.Knob].
func (k threaded) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	of, _, each, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	digit, ok := knob.Bit.Text(value)
	if !ok {
		return nil, knob.BadValue("nic.napi_threaded", value, errors.New("want on or off"))
	}
	writes := []setting.Write{{Setting: of, Value: setting.Text(digit)}}
	for _, q := range each {
		writes = append(writes, setting.Write{Setting: q.Setting, Value: setting.Text(digit)})
	}
	return writes, nil
}

// Range is of [knob.Ranger]: nothing where no queue of the device uses NAPI, for the
// kernel refuses.
func (k threaded) Range(m knob.Machine, t knob.Target) ([]string, error) {
	r, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	return knob.OtherThan("on", "off")(r.Value), nil
}
