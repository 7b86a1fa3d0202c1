package fastpath

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// To attach or detach a program takes some 15 ms: the kernel holds the RTNL lock while it waits
// for an RCU grace period, so parallel requests take as long. Expedited grace periods take a
// fraction of a millisecond, and the daemon asks for them while it attaches. To replace a program
// takes almost no time. So the daemon replaces all programs that are attached before it lets
// anything be carried, and attaches the others between the events that it handles: a pod is
// carried as soon as its own programs are attached.

// attachSlice is for how long the daemon attaches programs before it looks for events.
const attachSlice = 10 * time.Millisecond

// attachState is which programs are attached, and which are to be.
type attachState struct {
	attached  map[string]bool // by pin; false: somebody else has detached it
	missing   []attachment    // to be attached, in this order
	obsolete  []string        // pins of programs to be detached
	unchecked []string        // pins of programs to be checked next
	unread    bool            // there are pods to be read when these are attached
}

// attachment is where a program belongs.
type attachment struct {
	program *ebpf.Program
	name    string
	device  int
	point   kernel.AttachPoint
}

// attachments lists where programs belong: first those that every pod needs, then pod by
// pod. Programs that learn come before those that carry, which depend on them.
func (d *daemon) attachments() []attachment {
	var all []attachment
	add := func(device int, names ...string) {
		for _, name := range names {
			if p, known := d.attachmentFor(name, device); known {
				all = append(all, p)
			}
		}
	}
	outs := map[int]bool{}
	for h := range d.tables.peers {
		outs[h.device] = true
	}
	for device := range outs {
		add(device, "to_peer")
	}
	for device := range d.tables.tunnels() {
		add(device, "to_tunnel")
		if !d.Shadow { // which carries nothing, so it leaves nothing to the device
			add(device, "from_tunnel")
		}
	}
	for wire := range d.tables.wires() {
		add(wire, "from_wire")
	}
	for _, device := range slices.Sorted(maps.Keys(d.tables.pods)) {
		add(device, "to_pod", "from_pod")
	}
	return all
}

// attachmentFor is where a program belongs at a device. A name that is not known may be that of a
// program which only another version of the daemon has.
func (d *daemon) attachmentFor(name string, device int) (p attachment, known bool) {
	p.name, p.device = name, device
	switch name {
	case "to_peer":
		p.program, p.point = d.objs.ToPeer, d.egress()
	case "to_tunnel":
		p.program, p.point = d.objs.ToTunnel, d.egress()
	case "from_tunnel":
		p.program, p.point = d.objs.FromTunnel, d.ingress()
	case "to_pod":
		p.program, p.point = d.objs.ToPod, d.egress()
	case "from_pod":
		p.program, p.point = d.objs.FromPod, d.podIngress(d.topo.TC[device])
	case "from_wire":
		p.program, p.point = d.objs.FromWire, d.ingress()
	default:
		return attachment{}, false
	}
	return p, true
}

// attachmentOfPin derives from a pin which program it is for, and where; not ok: it is the pin of
// nothing that this daemon attaches.
func (d *daemon) attachmentOfPin(pin string) (p attachment, ok bool) {
	i := strings.LastIndexByte(pin, '_')
	device, err := strconv.Atoi(pin[i+1:])
	if err != nil {
		return p, false
	}
	p, ok = d.attachmentFor(filepath.Base(pin[:max(i, 0)]), device)
	return p, ok && d.pin(p) == pin
}

// replacePrograms replaces the programs of an earlier daemon, which use its tables. It
// detaches those that it cannot replace, or that this version does not know.
func (d *daemon) replacePrograms() error {
	pins, err := bpf.Attached(d.Pins)
	filters, failed := kernel.FiltersAt(d.netns, d.Pins, d.topo.Clsacts)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	detach, restore := expediteEach(d.detachPin)
	defer restore()
	for _, pin := range append(pins, filters...) {
		if d.attach.attached[pin] {
			continue // it is both a link and a filter
		}
		p, ok := d.attachmentOfPin(pin)
		if ok {
			ok, err = kernel.ReplaceProgram(d.netns, p.program, p.device, p.point, pin)
		}
		if err == nil && !ok {
			err = detach(pin)
		}
		if err != nil {
			return err
		}
		if ok {
			d.attach.attached[pin] = true
			if err := d.programs.noteOwnChange(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// forgetFilters forgets the filters that are gone: they vanish with their qdisc.
func (d *daemon) forgetFilters() {
	if !d.TC {
		return
	}
	for pin, there := range d.attach.attached {
		p, ok := d.attachmentOfPin(pin)
		tc, known := d.topo.TC[p.device]
		if there && ok && known && p.point.IsFilter() {
			d.attach.attached[pin] = slices.Contains(tc.OwnFilters, pin)
		}
	}
}

// planAttach finds the programs that are missing, and those that are obsolete. An obsolete
// program does nothing: its device is not in the tables.
func (d *daemon) planAttach() {
	wanted := map[string]bool{}
	d.attach.unread = d.topo.Unread > 0
	d.attach.missing, d.attach.obsolete = nil, nil
	for _, p := range d.attachments() {
		pin := d.pin(p)
		wanted[pin] = true
		if !d.attach.attached[pin] {
			d.attach.missing = append(d.attach.missing, p)
		}
	}
	for pin := range d.attach.attached {
		if !wanted[pin] && d.topo.Unread == 0 { // it may be one of a pod that is not read yet
			d.attach.obsolete = append(d.attach.obsolete, pin)
		}
	}
}

// attachNext attaches missing programs, or detaches obsolete ones, for a moment. It writes the
// state when the first pod is complete, and when the last is. When all first pods are, it reads the
// others.
func (d *daemon) attachNext() error {
	defer netcfg.ExpediteRCU()()
	for begin := time.Now(); len(d.attach.missing)+len(d.attach.obsolete) > 0 && time.Since(begin) < attachSlice; {
		if err := d.attachOne(); err != nil {
			return err
		}
		if d.lastState.Pods == 0 && d.carriedPods(d.waitingPods()) > 0 {
			break // somebody may wait for it
		}
	}
	if err := d.probeNewPods(); err != nil {
		return err
	}
	if d.lastState.Pods == 0 || len(d.attach.missing) == 0 {
		if err := d.writeState(); err != nil {
			return err
		}
	}
	if d.attach.unread && len(d.attach.missing) == 0 {
		d.attach.unread = false
		return d.resync()
	}
	return nil
}

func (d *daemon) attachOne() error {
	if len(d.attach.missing) == 0 {
		pin := d.attach.obsolete[0]
		d.attach.obsolete = d.attach.obsolete[1:]
		delete(d.attach.attached, pin)
		return d.detachPin(pin)
	}
	p := d.attach.missing[0]
	d.attach.missing = d.attach.missing[1:]
	err := kernel.AttachProgram(d.netns, p.program, p.device, p.point, d.pin(p))
	if errors.Is(err, host.ErrGone) { // an event will follow
		return nil
	}
	if err != nil {
		return err
	}
	d.attach.attached[d.pin(p)] = true
	return d.programs.noteOwnChange(p)
}

// attachPending is ready while there are programs to attach or detach, or pods to be read for that.
func (d *daemon) attachPending() <-chan struct{} {
	if len(d.attach.missing)+len(d.attach.obsolete) == 0 && !d.attach.unread {
		return nil
	}
	return alwaysReady
}

var alwaysReady = closedChannel()

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// waitingPods counts the pods whose programs are missing, and the links to pods that are not read
// yet.
func (d *daemon) waitingPods() int {
	pods := map[int]bool{}
	for _, p := range d.attach.missing {
		if _, ok := d.tables.pods[p.device]; ok {
			pods[p.device] = true
		}
	}
	return len(pods) + d.topo.Unread
}

// nextChecks takes the next batch of pins to check: those of links. That a filter goes is
// announced.
func (d *daemon) nextChecks() []string {
	if len(d.attach.unchecked) == 0 {
		for pin := range d.attach.attached {
			if p, ok := d.attachmentOfPin(pin); ok && !p.point.IsFilter() {
				d.attach.unchecked = append(d.attach.unchecked, pin)
			}
		}
	}
	n := min(checkBatch, len(d.attach.unchecked))
	now := d.attach.unchecked[:n]
	d.attach.unchecked = d.attach.unchecked[n:]
	return now
}

// reattach finds links that somebody else has detached, and plans to attach them again.
func (d *daemon) reattach(pins []string) error {
	lost := false
	for _, pin := range pins {
		p, ok := d.attachmentOfPin(pin)
		if !d.attach.attached[pin] || !ok || p.point.IsFilter() {
			continue
		}
		there, err := kernel.Attached(d.netns, pin, p.device, p.point)
		if err != nil {
			return err
		}
		d.attach.attached[pin] = there
		lost = lost || !there
	}
	if lost {
		d.planAttach()
	}
	return nil
}

// ingress is the attach point for what a device receives, egress that for what it sends.
func (c *Config) ingress() kernel.AttachPoint {
	if c.TC {
		return kernel.FilterIngress
	}
	return kernel.Ingress
}

func (c *Config) egress() kernel.AttachPoint {
	if c.TC {
		return kernel.FilterEgress
	}
	return kernel.Egress
}

// podIngress is the attach point for what a pod sends. For a netkit pair it lies in the
// pod's own transmission, from which packets reach the wire without waiting in a queue.
func (c *Config) podIngress(state topology.TCState) kernel.AttachPoint {
	if state.Netkit {
		return kernel.NetkitPeer
	}
	return c.ingress()
}

// pin is the file by which a program is attached.
func (d *daemon) pin(p attachment) string { return d.pinFor(p.name, p.device) }

func (d *daemon) pinFor(name string, device int) string {
	return filepath.Join(d.Pins, name+"_"+strconv.Itoa(device))
}

// detachPin detaches the program of a pin, and removes the pin.
func (d *daemon) detachPin(pin string) error { return kernel.DetachProgram(d.netns, pin) }
