package knob

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/verr"
)

// netRFS brings packets to the core on which their program runs.
var netRFS = Entry{
	Facts: Facts{
		Name:     "net.rfs",
		Title:    "How many flows of a device are brought to the core of their program (RFS)",
		Values:   "flows of the device, shared among its queues, such as 32768; off",
		Scope:    OfDevice,
		Helps:    []Effect{Latency, CPU},
		Risk:     "memory; the table in which the machine remembers flows is raised to the same number, for all devices, and off leaves that as it is",
		Needs:    "RPS on (net.rps)",
		Grade:    GradeC,
		Evidence: "Red Hat's guide recommends 32768, without a number for what it gains",
		Undo:     "the old numbers are written back, that of the machine's table too",
	},
	Knob: rfs{},
}

type rfs struct{}

const (
	flowsOfQueue = "queues/rx-*/rps_flow_cnt"
	mostFlows    = 1 << 22
)

// machinesFlows is the table that all devices share.
var machinesFlows = change.Cell{Store: "kernel", Key: "/proc/sys/net/core/rps_sock_flow_entries"}

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
		r.Effective, r.Note = "off", "the machine's table of flows is empty: net.core.rps_sock_flow_entries"
	}
	return r, nil
}

func readRFS(m Machine, t Target) (queues []queue, table int, err error) {
	if queues, err = queuesOf(m, t, flowsOfQueue); err != nil {
		return nil, 0, err
	}
	v, err := m.Cells.Read(machinesFlows)
	if errors.Is(err, os.ErrNotExist) {
		return nil, 0, verr.New(verr.Missing, "cannot read net.rfs", "the machine's table of flows does not show here", "run it in the machine's first network namespace")
	}
	if err != nil {
		return nil, 0, err
	}
	table, err = strconv.Atoi(strings.TrimSpace(v.String()))
	return queues, table, err
}

// Plan is of [Knob]. The kernel rounds up to powers of two, so that is what is
// asked for.
func (rfs) Plan(m Machine, t Target, value string) ([]change.Write, error) {
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
	var writes []change.Write
	each := powerOfTwo((flows + len(queues) - 1) / len(queues))
	if all := powerOfTwo(each * len(queues)); all > table {
		writes = append(writes, change.Write{Cell: machinesFlows, Value: change.Text(strconv.Itoa(all))})
	}
	for _, q := range queues {
		writes = append(writes, change.Write{Cell: q.cell, Value: change.Text(strconv.Itoa(each))})
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
	return always("off", "32768")(now.Value), nil
}
