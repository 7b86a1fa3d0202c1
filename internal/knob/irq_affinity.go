package knob

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/verr"
)

// irqAffinity is which core takes the interrupts of which queue.
var irqAffinity = Entry{
	Facts: Facts{
		Name:     "irq.affinity",
		Title:    "Which cores take the interrupts of a card's queues",
		Values:   `cores that the queues are dealt to one by one, such as 2-5; or for each interrupt its own, such as "eth0-TxRx-0=2 eth0-TxRx-1=3"`,
		Scope:    OfDevice,
		Helps:    []Effect{Latency, Throughput, Packets},
		Risk:     "a core that gets more than it can handle; some drivers forget it when the device comes up anew",
		Needs:    "a card with interrupts that the driver does not spread itself; no irqbalance that moves them again (irq.balance)",
		Grade:    GradeD,
		Evidence: "the wrong socket is up to 2 times slower (ESnet); by hand in place of irqbalance cost 30 % with 40 processes of Redis on 4 nodes (scx issue 3245)",
		Undo:     "the old cores of each interrupt are written back, whatever its number is by then",
	},
	Knob: affinity{},
}

type affinity struct{}

// read lists the interrupts of the target's card, and where each may go.
func (affinity) read(m Machine, t Target) ([]queue, []machine.IRQ, error) {
	if t.Device == "" {
		_, err := onDevice(t)
		return nil, nil, err
	}
	var irqs []machine.IRQ
	find := func(sys string) (err error) {
		irqs, err = machine.Reader{Root: m.Root}.IRQs(sys, t.Device)
		return err
	}
	var err error
	if m.Root != "" {
		err = find("")
	} else if place, gone := onDevice(t); gone != nil {
		return nil, nil, gone
	} else {
		err = place.Enter(func(string) error { return machine.Sysfs(find) })
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && len(irqs) == 0 {
		return nil, nil, verr.New(verr.Missing, "cannot read the interrupts of "+t.Device, "no card with interrupts of its own is behind it", "name the device of a network card")
	}
	if err != nil {
		return nil, nil, err
	}
	var all []queue
	for _, irq := range irqs {
		cell := change.IRQCell(irq)
		v, err := m.Cells.Read(cell)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, queue{irq.Name, cell, strings.TrimSpace(v.String())})
	}
	return all, irqs, nil
}

// Get is of [Knob].
func (k affinity) Get(m Machine, t Target) (Reading, error) {
	all, irqs, err := k.read(m, t)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Value: eachQueue(all)}
	if pid := m.Running("irqbalance")["irqbalance"]; pid > 0 {
		r.Note = fmt.Sprintf("irqbalance runs (pid %d) and may move them: see irq.balance", pid)
		return r, nil
	}
	for i, irq := range irqs {
		v, err := m.Cells.Read(change.Cell{Store: "kernel", Key: fmt.Sprintf("/proc/irq/%d/effective_affinity_list", irq.Number)})
		if err != nil {
			continue // before Linux 4.13
		}
		may, err1 := numbersIn(all[i].now)
		does, err2 := numbersIn(strings.TrimSpace(v.String()))
		if err1 == nil && err2 == nil && slices.ContainsFunc(does, func(core int) bool { return !slices.Contains(may, core) }) {
			r.Note = fmt.Sprintf("%s still comes to core %s, until it next fires", irq.Name, strings.TrimSpace(v.String()))
		}
	}
	return r, nil
}

// Plan is of [Knob].
func (k affinity) Plan(m Machine, t Target, value string) ([]change.Write, error) {
	all, _, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	var lists map[string]string
	if strings.Contains(value, "=") {
		lists, err = listsFor(value, all, nil)
	} else {
		lists, err = dealt(value, all)
	}
	if err != nil {
		return nil, noSense("irq.affinity", value, err)
	}
	on := coresOn(m)
	var writes []change.Write
	for _, irq := range all {
		list, named := lists[irq.name]
		if !named {
			continue
		}
		cores, err := numbersIn(list)
		if err == nil && len(cores) == 0 {
			err = fmt.Errorf("%s must go somewhere", irq.name)
		}
		for _, core := range cores {
			if len(on) > 0 && !slices.Contains(on, core) {
				err = fmt.Errorf("there is no core %d that is on", core)
			}
		}
		if err != nil {
			return nil, noSense("irq.affinity", value, err)
		}
		writes = append(writes, change.Write{Cell: irq.cell, Value: change.Text(spans(cores))})
	}
	return writes, nil
}

// Interrupts that are of no queue say so by their names.
var (
	noQueue  = regexp.MustCompile(`config|async|misc|mgmt|ctrl|cmd|health`)
	queueNum = regexp.MustCompile(`[0-9]+$`)
)

// dealt gives each queue one core of a list: those of the same number, such as
// the two directions of virtio's, the same.
func dealt(list string, all []queue) (map[string]string, error) {
	cores, err := numbersIn(list)
	if err != nil || len(cores) == 0 {
		return nil, errors.Join(err, errors.New("want cores, such as 2-5"))
	}
	lists := map[string]string{}
	for _, irq := range all {
		name, _, _ := strings.Cut(irq.name, "@") // "mlx5_comp3@pci:0000:01:00.0"
		n, err := strconv.Atoi(queueNum.FindString(name))
		if err == nil && !noQueue.MatchString(name) {
			lists[irq.name] = strconv.Itoa(cores[n%len(cores)])
		}
	}
	if len(lists) == 0 {
		return nil, errors.New("no interrupt is of a queue: name them one by one")
	}
	return lists, nil
}

// spans writes numbers in ascending order as the kernel does: "0-3,8".
func spans(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// Range is of [Ranger]: dealt to all cores, and to all but the first.
func (k affinity) Range(m Machine, t Target) ([]string, error) {
	on := coresOn(m)
	all, _, err := k.read(m, t)
	if err != nil || len(on) < 2 {
		return nil, err
	}
	return slices.DeleteFunc([]string{spans(on), spans(on[1:])}, func(list string) bool {
		lists, err := dealt(list, all)
		return err != nil || !slices.ContainsFunc(all, func(irq queue) bool { return lists[irq.name] != "" && lists[irq.name] != irq.now })
	}), nil
}
