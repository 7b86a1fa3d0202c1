package cpu

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
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// irqAffinity is which core takes the interrupts of which queue.
var irqAffinity = knob.Entry{
	Facts: knob.Facts{
		Name:     "irq.affinity",
		Title:    "Which cores take the interrupts of a card's queues",
		Values:   `cores to spread the queues over, such as 2-5; near: those of the card's NUMA node, without isolated cores, and without the first core if there are enough others; or one for each interrupt, such as "eth0-TxRx-0=2 eth0-TxRx-1=3"`,
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Latency, knob.Throughput, knob.Packets},
		Risk:     "a core that gets more than it can handle; some drivers forget it when the device comes up again",
		Needs:    "a card whose driver does not spread interrupts itself; no irqbalance that moves them again (irq.balance)",
		Grade:    knob.GradeD,
		Evidence: "the wrong socket is up to 2 times slower (ESnet); pinned by hand instead of irqbalance, it cost 30 % with 40 processes of Redis on 4 nodes (scx issue 3245)",
		Undo:     "the old cores of each interrupt are written back, even if its number has changed",
	},
	Knob: affinity{},
}

type affinity struct{}

// interrupts are those of a card, where each may go, and the cores near the card.
type interrupts struct {
	all   []knob.Queue
	irqs  []host.IRQ // of each
	local []int      // ascending; none: that is not known
}

func (affinity) read(m knob.Machine, t knob.Target) (c interrupts, err error) {
	if t.Device == "" {
		_, err := knob.DeviceScope(t)
		return c, err
	}
	find := func(sys string) (err error) {
		r := host.Reader{Root: m.Root}
		c.irqs, err = r.IRQs(sys, t.Device)
		c.local, _ = host.ParseNumbers(r.CardCores(sys, t.Device))
		return err
	}
	if m.Root != "" {
		err = find("")
	} else if scope, gone := knob.DeviceScope(t); gone != nil {
		return c, gone
	} else {
		err = scope.Enter(func(string) error { return host.Sysfs(find) })
	}
	const failed = "cannot read the interrupts of "
	switch {
	case errors.Is(err, os.ErrNotExist):
		return c, verr.New(verr.Missing, failed+t.Device, "no card with interrupts of its own is behind it", "name the device of a network card")
	case err != nil:
		return c, err
	case len(c.irqs) == 0:
		return c, verr.New(verr.Missing, failed+t.Device, "nothing uses those of its card now, as while the device is down", "set it up: ip link set dev "+t.Device+" up")
	}
	for _, irq := range c.irqs {
		s := setting.IRQSetting(irq)
		v, err := m.Settings.Read(s)
		if err != nil {
			return c, err
		}
		c.all = append(c.all, knob.Queue{Name: irq.Name, Setting: s, Value: strings.TrimSpace(v.String())})
	}
	return c, nil
}

// Get is of [knob.Knob].
func (k affinity) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	c, err := k.read(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: knob.FormatLists(c.all)}
	if pid := m.Running("irqbalance")["irqbalance"]; pid > 0 {
		r.Note = fmt.Sprintf("irqbalance runs (pid %d) and may move them: see irq.balance", pid)
		return r, nil
	}
	for i, irq := range c.irqs {
		v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: fmt.Sprintf("/proc/irq/%d/effective_affinity_list", irq.Number)})
		if err != nil {
			continue // before Linux 4.13
		}
		may, err1 := host.ParseNumbers(c.all[i].Value)
		does, err2 := host.ParseNumbers(strings.TrimSpace(v.String()))
		if err1 == nil && err2 == nil && slices.ContainsFunc(does, func(core int) bool { return !slices.Contains(may, core) }) {
			r.Note = fmt.Sprintf("%s still comes to core %s, until it next fires", irq.Name, strings.TrimSpace(v.String()))
		}
	}
	return r, nil
}

// Plan is of [knob.Knob].
func (k affinity) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	c, err := k.read(m, t)
	if err != nil {
		return nil, err
	}
	on := knob.OnlineCores(m)
	var lists map[string]string
	switch {
	case strings.Contains(value, "="):
		lists, err = knob.ParseLists(value, c.all, nil)
	case value == "near":
		lists, err = c.spread(c.nearest(dealtTo(m)))
	default:
		var cores []int
		if cores, err = host.ParseNumbers(value); err == nil {
			lists, err = c.spread(cores)
		}
	}
	if err != nil {
		return nil, knob.BadValue("irq.affinity", value, err)
	}
	var writes []setting.Write
	for _, irq := range c.all {
		list, named := lists[irq.Name]
		if !named {
			continue
		}
		cores, err := host.ParseNumbers(list)
		if err == nil && len(cores) == 0 {
			err = fmt.Errorf("%s must go somewhere", irq.Name)
		}
		for _, core := range cores {
			if len(on) > 0 && !slices.Contains(on, core) {
				err = fmt.Errorf("there is no core %d that is on", core)
			}
		}
		if err != nil {
			return nil, knob.BadValue("irq.affinity", value, err)
		}
		writes = append(writes, setting.Write{Setting: irq.Setting, Value: setting.Text(host.FormatNumbers(cores))})
	}
	return writes, nil
}

// Interrupts that are of no queue say so by their names.
var (
	noQueue  = regexp.MustCompile(`config|async|misc|mgmt|ctrl|cmd|health`)
	queueNum = regexp.MustCompile(`[0-9]+$`)
)

// queueOf gives the number of the queue that an interrupt is of; false: of none.
func queueOf(irq knob.Queue) (int, bool) {
	name, _, _ := strings.Cut(irq.Name, "@") // "mlx5_comp3@pci:0000:01:00.0"
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
			lists[irq.Name] = strconv.Itoa(cores[n%len(cores)])
		}
	}
	if len(lists) == 0 {
		return nil, errors.New("no interrupt is of a queue: name them one by one")
	}
	return lists, nil
}

// dealtTo are the cores that queues are dealt to where nobody names any: what is isolated is
// kept for programs that interrupts would disturb.
func dealtTo(m knob.Machine) []int {
	if shared := knob.SharedCores(m); len(shared) > 0 {
		return shared
	}
	return knob.OnlineCores(m)
}

// nearest are the cores that the queues are dealt to best: those of some that are near the
// card. The first core has most else to do: it is left out where each queue has
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

// Range is of [knob.Ranger]: dealt to the cores near the card, to all, and to all but the
// first.
func (k affinity) Range(m knob.Machine, t knob.Target) ([]string, error) {
	on := dealtTo(m)
	c, err := k.read(m, t)
	if err != nil || len(knob.OnlineCores(m)) < 2 {
		return nil, err
	}
	now := map[string]string{}
	for _, irq := range c.all {
		if _, is := queueOf(irq); is {
			now[irq.Name] = irq.Value
		}
	}
	seen, values := []map[string]string{now}, []string{}
	for _, try := range []struct {
		value string
		cores []int
	}{{"near", c.nearest(on)}, {host.FormatNumbers(on), on}, {host.FormatNumbers(on[1:]), on[1:]}} {
		lists, err := c.spread(try.cores)
		if err == nil && !slices.ContainsFunc(seen, func(other map[string]string) bool { return maps.Equal(other, lists) }) {
			seen, values = append(seen, lists), append(values, try.value)
		}
	}
	return values, nil
}
