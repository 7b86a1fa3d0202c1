package nic

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// nicQdisc is in what order a device sends.
var nicQdisc = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.qdisc",
		Title:    "The queueing discipline of a device",
		Values:   strings.Join(setting.QdiscKinds(), ", ") + "; on a device with mq, it is set below each queue",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.Drops},
		Risk:     "waiting packets are lost; flows get other shares, and without fq TCP paces with its own timers",
		Needs:    "a device that is up; fq for pacing, as bbr needs it; noqueue for virtual devices that forward at once",
		Grade:    knob.GradeC,
		Evidence: "ESnet's guide recommends fq; tuned leaves it alone; Cilium's fq stayed after it was turned off (issue 20878)",
		Undo:     "the old one is recreated with its handle and parameters, or the kernel's default comes back; its packets and counters are lost. One that cannot be recreated exactly is not touched",
	},
	Knob: qdisc{},
}

type qdisc struct{}

func (qdisc) read(m knob.Machine, t knob.Target) (setting.Setting, setting.Qdisc, error) {
	scope, err := knob.DeviceScope(t)
	if err != nil {
		return setting.Setting{}, setting.Qdisc{}, err
	}
	s := setting.QdiscSetting(scope)
	v, err := m.Settings.Read(s)
	if errors.Is(err, os.ErrNotExist) {
		return s, setting.Qdisc{}, verr.Wrap(verr.Missing, "cannot read the qdisc of "+t.Device, err, "bring the device up")
	}
	if err != nil {
		return s, setting.Qdisc{}, err
	}
	q, err := setting.ReadQdisc(v)
	return s, q, err
}

// Get is of [knob.Knob].
func (k qdisc) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, q, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	kinds := kindsOf(q)
	r := knob.Reading{Value: strings.Join(kinds, ",")}
	if q.Kind == "mq" {
		r.Note = fmt.Sprintf("below mq %s, for each of %d queues", q.Handle, len(q.Leaves))
	}
	return r, nil
}

// kindsOf lists the kinds in which packets really wait.
func kindsOf(q setting.Qdisc) []string {
	if q.Kind != "mq" || len(q.Leaves) == 0 {
		return []string{q.Kind}
	}
	var kinds []string
	for _, leaf := range q.Leaves {
		kinds = append(kinds, leaf.Kind)
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// Plan is of [knob.Knob]. It refuses to replace what could not be made again.
func (k qdisc) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	s, q, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(setting.QdiscKinds(), value) {
		return nil, knob.BadValue("nic.qdisc", value, errors.New("want one of "+strings.Join(setting.QdiscKinds(), ", ")))
	}
	if slices.Equal(kindsOf(q), []string{value}) {
		return nil, nil
	}
	if err := q.Exact(); err != nil {
		return nil, verr.Wrap(verr.Missing, "cannot replace the qdisc of "+t.Device, err, "it was somebody's choice: change it with the tc command, or by what set it up")
	}
	v, err := q.Replacement(value)
	return []setting.Write{{Setting: s, Value: v}}, err
}

// Range is of [knob.Ranger]: those that are recommended, where the present one can be
// made again, and not where packets do not wait at all.
func (k qdisc) Range(m knob.Machine, t knob.Target) ([]string, error) {
	_, q, err := k.read(m, t)
	if err != nil || q.Exact() != nil || q.Kind == "noqueue" {
		return nil, err
	}
	return knob.OtherThan("fq", "fq_codel")(strings.Join(kindsOf(q), ",")), nil
}
