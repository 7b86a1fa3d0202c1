package nic

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/venturi-net/venturi/internal/knob/stack"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// netRFS brings packets to the core on which their program runs.
var netRFS = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.rfs",
		Title:    "How many flows of a device are steered to the core of their program (RFS)",
		Values:   "flows of the device, shared among its queues, such as 32768; off",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.CPU},
		Risk:     "memory",
		Needs:    "RPS on (net.rps), and room in the host's flow table (net.rfs_table), which is for all devices",
		Grade:    knob.GradeC,
		Evidence: "Red Hat's guide recommends 32768, without a number for the gain",
		Undo:     "the old numbers are written back",
	},
	Knob: rfs{},
}

type rfs struct{}

const (
	flowsOfQueue = "queues/rx-*/rps_flow_cnt"
	recommended  = "32768"
	mostFlows    = 1 << 22
)

// Get is of [knob.Knob]. Without the machine's table, nothing is in effect.
func (rfs) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	queues, table, err := readRFS(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	sum := 0
	for _, q := range queues {
		n, err := strconv.Atoi(q.Value)
		if err != nil {
			return knob.Reading{}, fmt.Errorf("read %s: %w", q.Setting, err)
		}
		sum += n
	}
	if sum == 0 {
		return knob.Reading{Value: "off"}, nil
	}
	r := knob.Reading{Value: strconv.Itoa(sum)}
	if table == 0 {
		r.Effective, r.Note = "off", "the machine remembers no flows: see net.rfs_table"
	}
	return r, nil
}

func readRFS(m knob.Machine, t knob.Target) (queues []knob.Queue, table int, err error) {
	if queues, err = knob.ReadQueues(m, t, flowsOfQueue); err != nil {
		return nil, 0, err
	}
	now, err := stack.RFSTable.Get(m, knob.Target{})
	if err != nil {
		return nil, 0, err
	}
	table, err = strconv.Atoi(now.Value)
	return queues, table, err
}

// Plan is of [knob.Knob]. The kernel rounds up to powers of two, so that is what is
// asked for. The machine's table is no device's to change.
func (rfs) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	queues, table, err := readRFS(m, t)
	if err != nil {
		return nil, err
	}
	flows := 0
	if value != "off" {
		if flows, err = strconv.Atoi(value); err != nil || flows < 1 || flows > mostFlows {
			return nil, knob.BadValue("net.rfs", value, fmt.Errorf("want a number from 1 to %d, or off", mostFlows))
		}
	}
	each := powerOfTwo((flows + len(queues) - 1) / len(queues))
	if all := powerOfTwo(each * len(queues)); all > table {
		return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set net.rfs of %s to %s", t.Device, value),
			fmt.Sprintf("the machine remembers %d flows, and these are %d", table, all), fmt.Sprintf("first: venturi knob set net.rfs_table %d", all))
	}
	var writes []setting.Write
	for _, q := range queues {
		writes = append(writes, setting.Write{Setting: q.Setting, Value: setting.Text(strconv.Itoa(each))})
	}
	return writes, nil
}

// powerOfTwo rounds up; 0 stays.
func powerOfTwo(n int) int {
	if n < 1 {
		return 0
	}
	return 1 << bits.Len(uint(n-1))
}

// Range is of [knob.Ranger].
func (k rfs) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	values := []string{"off"}
	if _, err := k.Plan(m, t, recommended); err == nil {
		values = append(values, recommended)
	}
	return knob.OtherThan(values...)(now.Value), nil
}
