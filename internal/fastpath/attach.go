package fastpath

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
)

// To attach a program, or to detach one, the kernel waits until no packet is in the
// device's old list of programs: some 15 ms, in which nobody else can change devices, so
// it takes no less in parallel. To exchange one takes next to nothing. Therefore a daemon
// exchanges all that is attached before it lets anything be carried, and attaches the
// rest one by one, between the events that it follows: a pod is carried as soon as its
// own programs are there.

// place is where a program belongs.
type place struct {
	program *ebpf.Program
	name    string
	device  int
	at      kernel.Attach
}

// places are all where programs belong now: those for every pod first, then pod by pod.
// What learns comes before what carries, which needs it.
func (d *daemon) places() []place {
	var all []place
	outs := map[int]bool{}
	for h := range d.tables.peers {
		outs[h.device] = true
	}
	for device := range outs {
		all = append(all, d.place("to_peer", device))
	}
	for device := range d.tables.tunnels() {
		all = append(all, d.place("to_tunnel", device))
	}
	for wire := range d.tables.wires() {
		all = append(all, d.place("from_wire", wire))
	}
	for _, device := range slices.Sorted(maps.Keys(d.tables.pods)) {
		all = append(all, d.place("to_pod", device), d.place("from_pod", device))
	}
	return all
}

// place is where a program belongs at a device.
func (d *daemon) place(name string, device int) place {
	switch name {
	case "to_peer":
		return place{d.fast.ToPeer, name, device, d.egress()}
	case "to_tunnel":
		return place{d.fast.ToTunnel, name, device, d.egress()}
	case "to_pod":
		return place{d.fast.ToPod, name, device, d.egress()}
	case "from_pod":
		return place{d.fast.FromPod, name, device, d.fromPod(d.ways.TC[device])}
	}
	return place{d.fast.FromWire, name, device, d.ingress()}
}

// placeOf is what a pin was for.
func (d *daemon) placeOf(pin string) (p place, ok bool) {
	i := strings.LastIndexByte(pin, '_')
	device, err := strconv.Atoi(pin[i+1:])
	if err != nil {
		return p, false
	}
	p = d.place(filepath.Base(pin[:max(i, 0)]), device)
	return p, d.pin(p) == pin
}

// takeOver exchanges the programs of a daemon before, which know nothing of what this
// one knows. What cannot be exchanged is detached.
func (d *daemon) takeOver() error {
	pins, err := bpf.Attached(d.Pins)
	filters, failed := kernel.Filters(d.space, d.Pins)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	for _, pin := range append(pins, filters...) {
		if d.attached[pin] {
			continue // it is among the links and the filters
		}
		p, ok := d.placeOf(pin)
		if ok {
			ok, err = kernel.ExchangeProgram(d.space, p.program, p.device, p.at, pin)
		}
		if err == nil && !ok {
			err = d.detachPin(pin)
		}
		if err != nil {
			return err
		}
		if ok {
			d.attached[pin] = true
			if err := d.noteOwn(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan finds out where programs belong and are not yet, and where they are and do not
// belong any more. A program of the second kind does nothing, for its device is nobody's.
func (d *daemon) plan() {
	wanted := map[string]bool{}
	d.missing, d.spare = nil, nil
	for _, p := range d.places() {
		pin := d.pin(p)
		wanted[pin] = true
		if !d.attached[pin] {
			d.missing = append(d.missing, p)
		}
	}
	for pin := range d.attached {
		if !wanted[pin] {
			d.spare = append(d.spare, pin)
		}
	}
}

// attachNext attaches one program that is missing, or detaches a spare one. It says so
// when the first pod has all of its own, and the last one.
func (d *daemon) attachNext() error {
	if len(d.missing) == 0 {
		pin := d.spare[0]
		d.spare = d.spare[1:]
		delete(d.attached, pin)
		return d.detachPin(pin)
	}
	p := d.missing[0]
	d.missing = d.missing[1:]
	err := kernel.AttachProgram(d.space, p.program, p.device, p.at, d.pin(p))
	switch {
	case err == nil:
		d.attached[d.pin(p)] = true
		if err := d.noteOwn(p); err != nil {
			return err
		}
		if p.name == "from_pod" {
			if err := d.askNew(); err != nil {
				return err
			}
		}
	case !errors.Is(err, host.ErrGone): // of which there is news to come
		return err
	}
	if d.told.Pods == 0 || len(d.missing) == 0 {
		return d.tell()
	}
	return nil
}

// unattached is ready as long as there are programs to attach or detach.
func (d *daemon) unattached() <-chan struct{} {
	if len(d.missing)+len(d.spare) == 0 {
		return nil
	}
	return always
}

var always = closedChannel()

func closedChannel() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// waiting are the pods whose programs are missing.
func (d *daemon) waiting() int {
	pods := map[int]bool{}
	for _, p := range d.missing {
		if _, ok := d.tables.pods[p.device]; ok {
			pods[p.device] = true
		}
	}
	return len(pods)
}

// nextChecks are pins that are to be looked at now: some, in turns.
func (d *daemon) nextChecks() []string {
	if len(d.unchecked) == 0 {
		d.unchecked = slices.Collect(maps.Keys(d.attached))
	}
	n := min(checksAtOnce, len(d.unchecked))
	now := d.unchecked[:n]
	d.unchecked = d.unchecked[n:]
	return now
}

// reattach finds out what somebody has detached, to attach it again.
func (d *daemon) reattach(pins []string) error {
	for _, pin := range pins {
		p, ok := d.placeOf(pin)
		if !d.attached[pin] || !ok {
			continue
		}
		var err error
		if d.attached[pin], err = kernel.Attached(d.space, pin, p.device, p.at); err != nil {
			return err
		}
	}
	d.plan()
	return nil
}

// ingress is where what a device receives is seen, and egress where what it sends is.
func (c *Config) ingress() kernel.Attach {
	if c.TC {
		return kernel.FilterIngress
	}
	return kernel.Ingress
}

func (c *Config) egress() kernel.Attach {
	if c.TC {
		return kernel.FilterEgress
	}
	return kernel.Egress
}

// fromPod is where what a pod sends is seen: of a netkit pair, in the pod's own
// transmission, from which it goes to the wire without waiting in a queue.
func (c *Config) fromPod(w topology.TCState) kernel.Attach {
	if w.Netkit {
		return kernel.NetkitPeer
	}
	return c.ingress()
}

// pin is the file that a program is attached by.
func (d *daemon) pin(p place) string {
	return filepath.Join(d.Pins, p.name+"_"+strconv.Itoa(p.device))
}

// detachPin takes the program off its device that is pinned at the file, and the pin.
func (d *daemon) detachPin(pin string) error { return kernel.DetachProgram(d.space, pin) }
