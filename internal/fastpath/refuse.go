package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// passage is a device that packets pass, as those that are carried do not.
type passage struct {
	index int
	way   topology.TCState
	begin kernel.Attach // where the fast path itself stands, programs ahead of it still run; 0: nowhere
	only  bool          // packets that are carried are sent by it, too, by its queue and programs
}

// hook is a place where programs of BPF see the packets of a device.
type hook struct {
	device int
	at     kernel.Attach
}

// refuse leaves out the ways on which packets meet something that they would not
// meet any more: a limit, a filter, a program of somebody else. What only counts
// or records is no less skipped, but cannot be told from that.
func (d *daemon) refuse(w topology.Topology) (topology.Topology, error) {
	d.revisions = map[hook]uint64{}
	if len(d.programNames) > maxNames {
		clear(d.programNames)
	}
	why := map[int]string{}
	look := func(index int, at kernel.Attach, only bool) (string, error) {
		if known, ok := why[index]; ok {
			return known, nil
		}
		reason, err := d.skips(passage{index, w.TC[index], at, only})
		why[index] = reason
		return reason, err
	}
	var peers []topology.NextHop
	for _, p := range w.NextHops {
		onWire, err := look(p.WireDevice, d.ingress(), true)
		behind, also := "", error(nil)
		if p.Device != p.WireDevice {
			behind, also = look(p.Device, 0, false)
		}
		if err := errors.Join(err, also); err != nil {
			return w, err
		}
		switch {
		case onWire != "":
			w.Refusals = append(w.Refusals, topology.Refusal{Device: w.TC[p.WireDevice].Name, Reason: onWire})
		case behind != "":
			w.Refusals = append(w.Refusals, topology.Refusal{Device: w.TC[p.Device].Name, Reason: behind})
		default:
			peers = append(peers, p)
		}
	}
	var pods []topology.LocalPod
	for _, p := range w.Pods {
		reason, err := look(p.Device, d.fromPod(w.TC[p.Device]), false)
		if err == nil && reason == "" && p.NeighDevice != p.Device {
			if reason, err = look(p.NeighDevice, 0, false); reason != "" {
				reason = w.TC[p.NeighDevice].Name + " " + reason
			}
		}
		if err != nil {
			return w, err
		}
		if reason != "" {
			w.Refusals = append(w.Refusals, topology.Refusal{Device: w.TC[p.Device].Name, Reason: reason})
			continue
		}
		pods = append(pods, p)
	}
	w.NextHops, w.Pods = peers, pods
	slices.SortFunc(w.Refusals, func(a, b topology.Refusal) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Reason, b.Reason))
	})
	w.Refusals = slices.Compact(w.Refusals)
	return w, nil
}

var (
	sideNames  = map[audit.Direction]string{audit.Ingress: "ingress", audit.Egress: "egress"}
	pointNames = map[kernel.Attach]string{
		kernel.Ingress: "ingress", kernel.Egress: "egress",
		kernel.NetkitPeer: "netkit peer hook", kernel.NetkitPrimary: "netkit primary hook", attachXDP: "XDP hook",
	}
)

// attachXDP is where XDP programs are. At a veth they run ahead of everything else, and
// for what is carried, too; at a netkit, where that never comes.
const attachXDP = kernel.Attach(ebpf.AttachXDP)

// points are where packets meet programs of BPF on one side of a device.
func points(w topology.TCState, side audit.Direction) []kernel.Attach {
	switch {
	case side == audit.Ingress && w.Netkit:
		return []kernel.Attach{kernel.NetkitPeer, attachXDP, kernel.Ingress}
	case side == audit.Ingress:
		return []kernel.Attach{kernel.Ingress}
	case w.Netkit:
		return []kernel.Attach{kernel.Egress, kernel.NetkitPrimary}
	}
	return []kernel.Attach{kernel.Egress}
}

// skips says what at a device carried packets would skip; "": nothing.
func (d *daemon) skips(p passage) (string, error) {
	if p.way.Qdisc != "" && !p.only {
		return "has a queueing discipline " + p.way.Qdisc, nil
	}
	if d.TC && p.way.IngressQdisc {
		return "has the queueing discipline ingress, which leaves no place for clsact", nil
	}
	chains := d.rulings.DirectionsAt(p.way.Name)
	for _, side := range []audit.Direction{audit.Ingress, audit.Egress} {
		// A packet that is redirected where it came in passes no chain where it goes out.
		if chains&side != 0 {
			return "has an nftables chain at its " + sideNames[side], nil
		}
		if side == audit.Egress && p.only {
			if reason, err := d.readsMore(p); reason != "" || err != nil {
				return reason, err
			}
			continue
		}
		if p.way.ForeignFilters&side != 0 {
			return "has tc filters at its " + sideNames[side], nil
		}
		for _, at := range points(p.way, side) {
			if at == kernel.Ingress && p.begin == kernel.FilterIngress {
				continue // they are ahead of filters, all of them
			}
			names, ours, err := d.programs(hook{p.index, at})
			if err != nil {
				return "", err
			}
			// One that came behind the fast path's own makes that go; attached again, at the
			// next look, it is behind the other.
			if p.begin == at {
				names = names[ours:] // of none, if the fast path is yet to come behind them
			}
			if i := slices.IndexFunc(names, func(name string) bool { return !d.own(name) }); i >= 0 {
				return fmt.Sprintf("has a BPF program %s at its %s", names[i], pointNames[at]), nil
			}
		}
	}
	return "", nil
}

// readsMore says what at a device that sends what is carried looks at more than what such
// packets have in common with those that the network sends: the marks that rules give
// those; "": nothing.
func (d *daemon) readsMore(p passage) (string, error) {
	if p.way.UnknownReader != "" {
		return "has " + p.way.UnknownReader + ", which may go by more than what is in a packet", nil
	}
	if d.rulings.MarkChain == "" {
		return "", nil
	}
	names, _, err := d.programs(hook{p.index, kernel.Egress})
	if err != nil {
		return "", err
	}
	by := p.way.MarkReader
	if i := slices.IndexFunc(names, func(name string) bool { return !d.own(name) }); i >= 0 {
		by = fmt.Sprintf("a BPF program %s at its egress", names[i])
	}
	if by == "" {
		return "", nil
	}
	return fmt.Sprintf("has %s, which may go by marks that rules give (%s)", by, d.rulings.MarkChain), nil
}

// own tells programs of fast paths, of which a machine may have several, from those
// of others.
func (d *daemon) own(name string) bool { return slices.Contains(d.names, name) }

// ownNames notes the names and numbers of this fast path's programs.
func (d *daemon) ownNames() error {
	for _, p := range []*ebpf.Program{d.fast.FromPod, d.fast.ToPod, d.fast.FromWire, d.fast.ToPeer, d.fast.ToTunnel} {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID() // a kernel with tcx has them
		d.names, d.ids = append(d.names, info.Name), append(d.ids, id)
	}
	return nil
}

// programs gives the names of the programs at a place, in their order, and remembers
// how often they have changed. ours is where this daemon's is, or their number.
func (d *daemon) programs(h hook) (names []string, ours int, err error) {
	list, err := query(h)
	if err != nil {
		return nil, 0, err
	}
	ours = len(list.Programs)
	d.revisions[h] = list.Revision
	for i, p := range list.Programs {
		if slices.Contains(d.ids, p.ID) {
			ours = i
		}
		name, known := d.programNames[p.ID]
		if !known {
			if name, err = programName(p.ID); err != nil {
				return nil, 0, err
			}
			d.programNames[p.ID] = name // no other program will have that number
		}
		names = append(names, name)
	}
	return names, ours, nil
}

// query asks which programs are at a place. At a device that is gone, or that is no
// netkit any more, there are none.
func query(h hook) (list *link.QueryResult, err error) {
	switch {
	case h.at == attachXDP:
		return queryExpress(h.device)
	case !kernel.HasTCX(): // and netkit is newer
		return &link.QueryResult{}, nil
	}
	o := link.QueryOptions{Target: h.device, Attach: ebpf.AttachType(h.at)}
	for range 3 { // one may come while the kernel is asked
		if list, err = link.QueryPrograms(o); !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENXIO) {
		return &link.QueryResult{}, nil
	}
	return list, err
}

// queryExpress does so for XDP, of which a device runs one program.
func queryExpress(device int) (*link.QueryResult, error) {
	id, err := topology.XDPProgram(device)
	list := &link.QueryResult{Revision: uint64(id)}
	if id != 0 {
		list.Programs = []link.AttachedProgram{{ID: ebpf.ProgramID(id)}}
	}
	return list, err
}

func programName(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, syscall.ENOENT) {
		return "", nil // it has gone since: the next look finds that
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", err
	}
	return info.Name, nil
}

// maxNames is how many names of programs are kept.
const maxNames = 1 << 12

// glances is at how many places it is looked at once, in turns.
const glances = 32

// moved looks whether programs have come or gone: of that there is no news. It looks at
// all places if there are programs or links that were not there at the last look, which
// it asks the machine once; and at some anyway, in turns, for a program can be attached
// without a link long after it was loaded.
func (d *daemon) moved() (bool, error) {
	if d.objects.HasNew() {
		d.suspect = 2 // it may be attached a moment later
	}
	if len(d.turn) == 0 {
		d.turn = slices.Collect(maps.Keys(d.revisions))
	}
	n := min(glances, len(d.turn))
	begin := time.Now()
	if d.suspect > 0 && begin.After(d.rested) {
		d.suspect--
		d.turn = slices.Collect(maps.Keys(d.revisions))
		n = len(d.turn)
	}
	some := d.turn[:n]
	d.turn = d.turn[n:]
	for _, h := range some {
		revision, err := revisionAt(h)
		if err != nil {
			return false, err
		}
		if was, known := d.revisions[h]; known && revision != was {
			return true, nil
		}
	}
	d.rested = begin.Add(restAfter * time.Since(begin))
	return false, nil
}

// restAfter is for how many times as long as a look took there is none at all places.
const restAfter = 400

// revisionAt is that of the programs at a place.
func revisionAt(h hook) (uint64, error) {
	if h.at == attachXDP || !kernel.HasTCX() {
		list, err := query(h)
		if err != nil {
			return 0, err
		}
		return list.Revision, nil
	}
	return topology.ProgramsRevision(h.device, uint32(h.at))
}

// noteOwn notes that this daemon has changed the programs of a place, once. If somebody
// else has, too, that is still to be found.
func (d *daemon) noteOwn(p place) error {
	h := hook{p.device, p.at}
	was, known := d.revisions[h]
	if !known {
		return nil
	}
	revision, err := revisionAt(h)
	if revision == was+1 {
		d.revisions[h] = revision
	}
	return err
}
