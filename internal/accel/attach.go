package accel

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/machine"
)

// place is where a program belongs.
type place struct {
	program *ebpf.Program
	name    string
	device  int
	at      change.Attach
}

// places are all where programs belong now. Those that learn come first: what is
// carried has been learned.
func (d *daemon) places() []place {
	var learn, carry []place
	outs := map[int]bool{}
	for h := range d.tables.peers {
		outs[h.device] = true
	}
	for device := range outs {
		learn = append(learn, place{d.fast.ToPeer, "to_peer", device, d.egress()})
	}
	for device := range d.tables.pods {
		learn = append(learn, place{d.fast.ToPod, "to_pod", device, d.egress()})
		carry = append(carry, place{d.fast.FromPod, "from_pod", device, d.fromPod(d.ways.Devices[device])})
	}
	for wire := range d.tables.wires() {
		carry = append(carry, place{d.fast.FromWire, "from_wire", wire, d.ingress()})
	}
	return append(learn, carry...)
}

// attach attaches programs where they belong and are not yet, and detaches them
// where they do not belong any more.
func (d *daemon) attach() error {
	wanted := map[string]bool{}
	for _, p := range d.places() {
		pin := d.pin(p)
		wanted[pin] = true
		if d.attached[pin] {
			continue
		}
		err := d.space.AttachProgram(p.program, p.device, p.at, pin)
		if errors.Is(err, change.ErrGone) {
			continue // there is news of that to come
		}
		if err != nil {
			return err
		}
		d.attached[pin] = true
	}
	for pin := range d.attached {
		if wanted[pin] {
			continue
		}
		if err := d.space.DetachProgram(pin); err != nil {
			return err
		}
		delete(d.attached, pin)
	}
	return nil
}

// mend attaches again what somebody has detached.
func (d *daemon) mend() error {
	for _, p := range d.places() {
		pin := d.pin(p)
		if !d.attached[pin] {
			continue
		}
		there, err := d.space.Attached(pin, p.device, p.at)
		if err != nil {
			return err
		}
		d.attached[pin] = there
	}
	return d.attach()
}

// ingress is where what a device receives is seen, and egress where what it sends is.
func (c *Config) ingress() change.Attach {
	if c.TC {
		return change.FilterIngress
	}
	return change.Ingress
}

func (c *Config) egress() change.Attach {
	if c.TC {
		return change.FilterEgress
	}
	return change.Egress
}

// fromPod is where what a pod sends is seen: of a netkit pair, in the pod's own
// transmission, from which it goes to the wire without waiting in a queue.
func (c *Config) fromPod(w machine.DeviceWay) change.Attach {
	if w.Netkit {
		return change.NetkitPeer
	}
	return c.ingress()
}

// pin is the file that a program is attached by.
func (d *daemon) pin(p place) string {
	return filepath.Join(d.Pins, fmt.Sprintf("%s_%d", p.name, p.device))
}
