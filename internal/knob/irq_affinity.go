package knob

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// irqAffinity is which core takes the interrupts of which queue.
var irqAffinity = Entry{
	Facts: Facts{
		Name:     "irq.affinity",
		Title:    "Which cores take the interrupts of a card's queues",
		Values:   `cores to spread the queues over, such as 2-5; near: those of the card's NUMA node, without the first core if there are enough others; or one for each interrupt, such as "eth0-TxRx-0=2 eth0-TxRx-1=3"`,
		Scope:    ScopeDevice,
		Helps:    []Benefit{Latency, Throughput, Packets},
		Risk:     "a core that gets more than it can handle; some drivers forget it when the device comes up again",
		Needs:    "a card whose driver does not spread interrupts itself; no irqbalance that moves them again (irq.balance)",
		Grade:    GradeD,
		Evidence: "the wrong socket is up to 2 times slower (ESnet); pinned by hand instead of irqbalance, it cost 30 % with 40 processes of Redis on 4 nodes (scx issue 3245)",
		Undo:     "the old cores of each interrupt are written back, even if its number has changed",
	},
	Knob: affinity{},
}

type affinity struct{}

// interrupts are those of a card, where each may go, and the cores near the card.
type interrupts struct {
	all   []queue
	irqs  []host.IRQ // of each
	local []int      // ascending; none: that is not known
}

func (affinity) read(m Machine, t Target) (c interrupts, err error) {
	if t.Device == "" {
		_, err := onDevice(t)
		return c, err
	}
	find := func(sys string) (err error) {
		r := host.Reader{Root: m.Root}
		c.irqs, err = r.IRQs(sys, t.Device)
		c.local, _ = numbersIn(r.CardCores(sys, t.Device))
		return err
	}
	if m.Root != "" {
		err = find("")
	} else if place, gone := onDevice(t); gone != nil {
		return c, gone
	} else {
		err = place.Enter(func(string) error { return host.Sysfs(find) })
	}
	if errors.Is(err, os.ErrNotExist) || err == nil && len(c.irqs) == 0 {
		return c, verr.New(verr.Missing, "cannot read the interrupts of "+t.Device, "no card with interrupts of its own is behind it", "name the device of a network card")
	}
	if err != nil {
		return c, err
	}
	for _, irq := range c.irqs {
		cell := setting.IRQSetting(irq)
		v, err := m.Settings.Read(cell)
		if err != nil {
			return c, err
		}
		c.all = append(c.all, queue{irq.Name, cell, strings.TrimSpace(v.String())})
	}
	return c, nil
}

// Get is of [Knob].
func (k affinity) Get(m Machine, t Target) (Reading, error) {
	c, err := k.read(m, t)
	if err != nil {
		return Reading{}, err
	}
	r := Reading{Value: eachQueue(c.all)}
	if pid := m.Running("irqbalance")["irqbalance"]; pid > 0 {
		r.Note = fmt.Sprintf("irqbalance runs (pid %d) and may move them: see irq.balance", pid)
		return r, nil
	}
	for i, irq := range c.irqs {
		v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: fmt.Sprintf("/proc/irq/%d/effective_affinity_list", irq.Number)})
		if err != nil {
			continue // before Linux 4.13
		}
		may, err1 := numbersIn(c.all[i].now)
		does, err2 := numbersIn(strings.TrimSpace(v.String()))
		if err1 == nil && err2 == nil && slices.ContainsFunc(does, func(core int) bool { return !slices.Contains(may, core) }) {
			r.Note = fmt.Sprintf("%s still comes to core %s, until it next fires", irq.Name, strings.TrimSpace(v.String()))
		}
	}
	return r, nil
}

// Plan is of [Knob].
func (k affinity) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	c, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	on := coresOn(m)
	var lists map[string]string
	switch {
	case strings.Contains(value, "="):
		lists, err = listsFor(value, c.all, nil)
	case value == "near":
		lists, err = c.spread(c.nearest(on))
	default:
		var cores []int
		if cores, err = numbersIn(value); err == nil {
			lists, err = c.spread(cores)
		}
	}
	if err != nil {
		return nil, noSense("irq.affinity", value, err)
	}
	var writes []setting.Write
	for _, irq := range c.all {
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
		writes = append(writes, setting.Write{Setting: irq.cell, Value: setting.Text(spans(cores))})
	}
	return writes, nil
}

// Interrupts that are of no queue say so by their names.
var (
	noQueue  = regexp.MustCompile(`config|async|misc|mgmt|ctrl|cmd|health`)
	queueNum = regexp.MustCompile(`[0-9]+$`)
)

// queueOf gives the number of the queue that an interrupt is of; false: of none.
func queueOf(irq queue) (int, bool) {
	name, _, _ := strings.Cut(irq.name, "@") // "mlx5_comp3@pci:0000:01:00.0"
	n, err := strconv.Atoi(queueNum.FindString(name))
	return n, err == nil && !noQueue.MatchString(name)
}

// spread gives each queue one of some cores: those of the same number, such as the
// two directions of virtio's, the same.
func (c interrupts) spread(cores []int) (map[string]string, error) {
	if len(cores) == 0 {
		return nil, errors.New("want cores, such as 2-5")
	}
	lists := map[string]string{}
	for _, irq := range c.all {
		if n, is := queueOf(irq); is {
			lists[irq.name] = strconv.Itoa(cores[n%len(cores)])
		}
	}
	if len(lists) == 0 {
		return nil, errors.New("no interrupt is of a queue: name them one by one")
	}
	return lists, nil
}

// nearest are the cores that the queues are dealt to best: those near the card that
// are on. The first core has most else to do: it is left out where each queue has
// one of its own without it.
func (c interrupts) nearest(on []int) []int {
	cores := slices.DeleteFunc(slices.Clone(c.local), func(core int) bool { return !slices.Contains(on, core) })
	if len(cores) == 0 {
		cores = on
	}
	queues := map[int]bool{}
	for _, irq := range c.all {
		if n, is := queueOf(irq); is {
			queues[n] = true
		}
	}
	if len(cores) > len(queues) && cores[0] == on[0] {
		return cores[1:]
	}
	return cores
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

// Range is of [Ranger]: dealt to the cores near the card, to all, and to all but the
// first.
func (k affinity) Range(m Machine, t Target) ([]string, error) {
	on := coresOn(m)
	c, err := k.read(m, t)
	if err != nil || len(on) < 2 {
		return nil, err
	}
	now := map[string]string{}
	for _, irq := range c.all {
		if _, is := queueOf(irq); is {
			now[irq.name] = irq.now
		}
	}
	seen, values := []map[string]string{now}, []string{}
	for _, try := range []struct {
		value string
		cores []int
	}{{"near", c.nearest(on)}, {spans(on), on}, {spans(on[1:]), on[1:]}} {
		lists, err := c.spread(try.cores)
		if err == nil && !slices.ContainsFunc(seen, func(other map[string]string) bool { return maps.Equal(other, lists) }) {
			seen, values = append(seen, lists), append(values, try.value)
		}
	}
	return values, nil
}
