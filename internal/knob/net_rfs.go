package knob

import (
	"fmt"
	"math/bits"
	"strconv"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// netRFS brings packets to the core on which their program runs.
var netRFS = Entry{
	Facts: Facts{
		Name:     "net.rfs",
		Title:    "How many flows of a device are steered to the core of their program (RFS)",
		Values:   "flows of the device, shared among its queues, such as 32768; off",
		Scope:    ScopeDevice,
		Helps:    []Benefit{Latency, CPU},
		Risk:     "memory",
		Needs:    "RPS on (net.rps), and room in the host's flow table (net.rfs_table), which is for all devices",
		Grade:    GradeC,
		Evidence: "Red Hat's guide recommends 32768, without a number for the gain",
		Undo:     "the old numbers are written back",
	},
	Knob: rfs{},
}

// rfsTable is where the machine remembers on which core a flow's program runs.
var rfsTable = Entry{
	Facts: Facts{
		Name:     "net.rfs_table",
		Title:    "How many flows the host keeps the core of (RFS)",
		Values:   "flows of all devices together, such as 32768; the kernel rounds up to a power of two. 0: none, and net.rfs does nothing",
		Scope:    ScopeMachine,
		Helps:    []Benefit{Latency, CPU},
		Risk:     "memory, and a little work for each packet that a program receives",
		Needs:    "net.rfs on a device; of no use by itself",
		Grade:    GradeC,
		Evidence: "Red Hat's guide recommends 32768, without a number for the gain",
		Undo:     "the old value is written back",
	},
	Knob: sysctl{name: flowTable, global: true, check: Number(0, mostTable)},
}

type rfs struct{}

const (
	flowsOfQueue = "queues/rx-*/rps_flow_cnt"
	flowTable    = "net.core.rps_sock_flow_entries"
	recommended  = "32768"
	mostFlows    = 1 << 22
	mostTable    = 1 << 29 // the kernel's own
)

// Get is of [Knob]. Without the machine's table, nothing is in effect.
func (rfs) Get(m Machine, t Target) (Reading, error) {
	queues, table, err := readRFS(m, t)
	if err != nil {
		return Reading{}, err
	}
	sum := 0
	for _, q := range queues {
		n, err := strconv.Atoi(q.now)
		if err != nil {
			return Reading{}, fmt.Errorf("read %s: %w", q.cell, err)
		}
		sum += n
	}
	if sum == 0 {
		return Reading{Value: "off"}, nil
	}
	r := Reading{Value: strconv.Itoa(sum)}
	if table == 0 {
		r.Effective, r.Note = "off", "the machine remembers no flows: see net.rfs_table"
	}
	return r, nil
}

func readRFS(m Machine, t Target) (queues []queue, table int, err error) {
	if queues, err = queuesOf(m, t, flowsOfQueue); err != nil {
		return nil, 0, err
	}
	now, err := rfsTable.Get(m, Target{})
	if err != nil {
		return nil, 0, err
	}
	table, err = strconv.Atoi(now.Value)
	return queues, table, err
}

// Plan is of [Knob]. The kernel rounds up to powers of two, so that is what is
// asked for. The machine's table is no device's to change.
func (rfs) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	queues, table, err := readRFS(m, t)
	if err != nil {
		return nil, err
	}
	flows := 0
	if value != "off" {
		if flows, err = strconv.Atoi(value); err != nil || flows < 1 || flows > mostFlows {
			return nil, noSense("net.rfs", value, fmt.Errorf("want a number from 1 to %d, or off", mostFlows))
		}
	}
	each := powerOfTwo((flows + len(queues) - 1) / len(queues))
	if all := powerOfTwo(each * len(queues)); all > table {
		return nil, verr.New(verr.Missing, fmt.Sprintf("cannot set net.rfs of %s to %s", t.Device, value),
			fmt.Sprintf("the machine remembers %d flows, and these are %d", table, all), fmt.Sprintf("first: venturi knob set net.rfs_table %d", all))
	}
	var writes []setting.Write
	for _, q := range queues {
		writes = append(writes, setting.Write{Setting: q.cell, Value: setting.Text(strconv.Itoa(each))})
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

// Range is of [Ranger].
func (k rfs) Range(m Machine, t Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	values := []string{"off"}
	if _, err := k.Plan(m, t, recommended); err == nil {
		values = append(values, recommended)
	}
	return otherThan(values...)(now.Value), nil
}
