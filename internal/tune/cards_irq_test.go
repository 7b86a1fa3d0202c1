package tune_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/testenv"
)

// interruptsRenamed has a driver register its interrupts under another name of the
// device; an undo finds them.
func interruptsRenamed(t *testing.T, c card) {
	e, err := table.Find("irq.affinity")
	testenv.Must(t, err)
	link, err := netlink.LinkByName(c.on.Device)
	testenv.Must(t, err)
	rename := func(name string) {
		t.Helper()
		testenv.Must(t, netlink.LinkSetDown(link))
		testenv.Must(t, netlink.LinkSetName(link, name))
		testenv.Must(t, netlink.LinkSetUp(link))
		c.on.Device = name
	}
	was, name := c.on.Device, "other9"
	before := c.interrupts(t)
	testenv.Must(t, c.set(t, e, "1"))
	if c.interrupts(t) == before {
		t.Fatalf("all were there already: %s", before)
	}
	rename(name)
	if now := c.interrupts(t); !strings.Contains(now, name) {
		t.Errorf("the driver kept the names: %s", now)
	}
	c.undo(t)
	if now := c.interrupts(t); now != strings.ReplaceAll(before, was, name) {
		t.Errorf("undone: %s, was %s", now, before)
	}
	rename(was)
}

// interrupts tells which cores take those of the card, as the kernel shows it.
func (c card) interrupts(t *testing.T) (text string) {
	t.Helper()
	irqs, err := host.Reader{}.IRQs("", c.on.Device)
	testenv.Must(t, err)
	for _, irq := range irqs {
		text += irq.Name + " on " + irq.CPUs + "\n"
	}
	return text
}

// interruptsAnew has a driver make its queues anew, upon which it may forget where
// somebody sent their interrupts; an undo sends them there again.
func interruptsAnew(t *testing.T, c card, name string) {
	irqs, err := host.Reader{}.IRQs("", c.on.Device)
	testenv.Must(t, err)
	for _, irq := range irqs {
		testenv.Must(t, os.WriteFile(fmt.Sprintf("/proc/irq/%d/smp_affinity_list", irq.Number), []byte("1"), 0o644))
	}
	e, err := table.Find(name)
	testenv.Must(t, err)
	values, err := e.Knob.(knob.Ranger).Range(c.m, c.on)
	testenv.Must(t, err)
	before, ran, lacks := c.interrupts(t), 0, true
	for _, value := range values {
		if err := c.set(t, e, value); err != nil {
			t.Log(err) // a hash table may name more queues
			lacks = lacks && errors.Is(err, errors.ErrUnsupported)
			continue
		}
		ran++
		during := c.interrupts(t)
		c.undo(t)
		if after := c.interrupts(t); after != before {
			t.Errorf("%s %s=%s sent interrupts to\n%sand its undo to\n%sthey went to\n%s", c.driver, name, value, during, after, before)
		}
	}
	switch {
	case ran == 0 && lacks && len(values) > 0:
		t.Skipf("%s has no way to set %s in this kernel", c.driver, name)
	case ran == 0:
		t.Errorf("%s took no other %s", c.driver, name)
	}
}
