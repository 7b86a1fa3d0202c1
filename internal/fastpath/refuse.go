package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// crossing is a device that packets cross on the slow path.
type crossing struct {
	index  int
	tc     topology.TCState
	start  kernel.AttachPoint // where the fast path's own program is, 0: nowhere; programs ahead of it still run
	shared bool               // carried packets leave by it too, through its queue and programs
}

// attachPoint is where BPF programs see the packets of a device.
type attachPoint struct {
	device int
	point  kernel.AttachPoint
}

// refuse removes the pods and next hops whose packets meet something on the slow path that
// carried packets would bypass: a limit, a filter, a program of somebody else. Programs that
// only count or record cannot be told from others, and count too. It also removes those for which
// the tables have no room.
func (d *daemon) refuse(topo topology.Topology) (topology.Topology, error) {
	d.programs.revisions = map[attachPoint]uint64{}
	if len(d.programs.cache) > maxCached {
		clear(d.programs.cache)
	}
	why, wires := map[int]string{}, map[int]string{}
	look := func(index int, at kernel.AttachPoint) (string, error) {
		if known, ok := why[index]; ok {
			return known, nil
		}
		reason, err := d.refusal(crossing{index, topo.TC[index], at, false})
		why[index] = reason
		return reason, err
	}
	var peers []topology.NextHop
	for _, p := range topo.NextHops {
		onWire, known := wires[p.WireDevice]
		err := error(nil)
		if !known {
			onWire, err = d.wireRefusal(p.WireDevice, topo.TC)
			wires[p.WireDevice] = onWire
		}
		behind, also := cmp.Or(d.otherTunnel(p), d.strangerReason(p, topo.TC)), error(nil)
		if behind == "" && p.Device != p.WireDevice {
			behind, also = look(p.Device, 0)
		}
		if err := errors.Join(err, also); err != nil {
			return topo, err
		}
		switch {
		case onWire != "":
			topo.Refusals = append(topo.Refusals, topology.Refusal{Device: topo.TC[p.WireDevice].Name, Reason: onWire})
		case behind != "":
			topo.Refusals = append(topo.Refusals, topology.Refusal{Device: topo.TC[p.Device].Name, Reason: behind})
		default:
			peers = append(peers, p)
		}
	}
	var pods []topology.LocalPod
	for _, p := range topo.Pods {
		reason, err := look(p.Device, d.podIngress(topo.TC[p.Device]))
		if err == nil && reason == "" && p.NeighDevice != p.Device {
			if reason, err = look(p.NeighDevice, 0); reason != "" {
				reason = topo.TC[p.NeighDevice].Name + " " + reason
			}
		}
		if err != nil {
			return topo, err
		}
		if reason != "" {
			topo.Refusals = append(topo.Refusals, topology.Refusal{Device: topo.TC[p.Device].Name, Reason: reason})
			continue
		}
		pods = append(pods, p)
	}
	topo.NextHops, topo.Pods = peers, pods
	refuseBeyond(&topo)
	slices.SortFunc(topo.Refusals, func(a, b topology.Refusal) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Reason, b.Reason))
	})
	topo.Refusals = slices.Compact(topo.Refusals)
	return topo, nil
}

// otherTunnel says that the tunnel to a next hop is not of the kind, or has not the UDP port, that the
// programs were loaded for; "": it is and has, or there is no tunnel. Another tunnel may have the name
// meanwhile.
func (c *Config) otherTunnel(p topology.NextHop) string {
	if p.Encap == nil {
		return ""
	}
	kind := VXLAN
	switch {
	case p.Encap.ByDevice:
		kind = VXLAN6
	case p.Encap.IPIP:
		kind = IPIP
	case p.Encap.Geneve:
		kind = Geneve
	}
	switch {
	case kind != c.Kind:
		return fmt.Sprintf("is of kind %s, and the fast path was enabled for %s: %s", kind, c.Kind, enableAgain)
	case p.Encap.Port != int(c.Port):
		return fmt.Sprintf("uses UDP port %d, and the fast path was enabled for port %d: %s", p.Encap.Port, c.Port, enableAgain)
	}
	return ""
}

// strangerReason says that packets of the tunnel to a next hop are some of those that the audit has taken not to be of
// a tunnel; "": they are not.
func (d *daemon) strangerReason(p topology.NextHop, tc map[int]topology.TCState) string {
	if p.Encap == nil {
		return ""
	}
	local := p.Encap.Local
	if p.Encap.ByDevice {
		local = nlmsg.ToAddr(p.Encap.BoundAddr)
	}
	what := d.audit.rules.Strangers.Match(tc[p.WireDevice].Name, local, p.Encap.Remote)
	if what != "" {
		what = fmt.Sprintf("its packets to and from %v may meet rules for %s, which are not known to treat all of them alike", p.Encap.Remote, what)
	}
	return what
}

// strangersReason is why nothing is carried until the topology was read, see leaveStrangers.
const strangersReason = "packets of a tunnel that is carried may meet rules that are not known to treat all of them alike"

// leaveStrangers has nothing carried if a peer that is carried may not be any more, going by rules that have
// changed. That peer is to be left alone at once, and a large topology takes a while to read.
func (d *daemon) leaveStrangers() error {
	if !slices.ContainsFunc(d.topo.NextHops, func(p topology.NextHop) bool { return d.strangerReason(p, d.topo.TC) != "" }) {
		return nil
	}
	d.audit.stale = strangersReason
	return d.updateGate()
}

const enableAgain = "disable it, and enable it again"

var (
	directionNames = map[audit.Direction]string{audit.Ingress: "ingress", audit.Egress: "egress"}
	pointNames     = map[kernel.AttachPoint]string{
		kernel.Ingress: "ingress", kernel.Egress: "egress",
		kernel.NetkitPeer: "netkit peer hook", kernel.NetkitPrimary: "netkit primary hook", attachXDP: "XDP hook",
	}
)

// attachXDP is the attach point of XDP programs. At a veth they run ahead of everything
// else, for carried packets too; carried packets never get to those of a netkit, a bridge
// or a tunnel.
const attachXDP = kernel.AttachPoint(ebpf.AttachXDP)

// programPoints are the attach points in one direction of a device.
func programPoints(state topology.TCState, side audit.Direction) []kernel.AttachPoint {
	switch {
	case side == audit.Ingress && state.Netkit:
		return []kernel.AttachPoint{kernel.NetkitPeer, attachXDP, kernel.Ingress}
	case side == audit.Ingress:
		return []kernel.AttachPoint{kernel.Ingress}
	case state.Netkit:
		return []kernel.AttachPoint{kernel.Egress, kernel.NetkitPrimary}
	}
	return []kernel.AttachPoint{kernel.Egress}
}

// refusal says what at a device carried packets would bypass; "": nothing.
func (d *daemon) refusal(p crossing) (string, error) {
	if p.tc.Qdisc != "" && !p.shared {
		return "has a queueing discipline " + p.tc.Qdisc, nil
	}
	if d.TC && p.tc.IngressQdisc {
		return "has the queueing discipline ingress, which leaves no place for clsact", nil
	}
	chains := d.audit.rules.DirectionsAt(p.tc.Name)
	for _, side := range []audit.Direction{audit.Ingress, audit.Egress} {
		// A packet that is redirected at ingress crosses no chain at egress.
		if chains&side != 0 {
			return "has an nftables chain at its " + directionNames[side], nil
		}
		if side == audit.Egress && p.shared {
			if reason, err := d.metadataReader(p); reason != "" || err != nil {
				return reason, err
			}
			continue
		}
		if p.tc.ForeignFilters&side != 0 {
			return "has tc filters at its " + directionNames[side], nil
		}
		points := programPoints(p.tc, side)
		if side == audit.Ingress && p.start == 0 && !p.tc.Netkit {
			points = append(points, attachXDP) // carried packets never get to a bridge or a tunnel
		}
		for _, at := range points {
			if at == kernel.Ingress && p.start == kernel.FilterIngress {
				continue // all of them run ahead of filters
			}
			programs, ours, err := d.programs.list(attachPoint{p.index, at})
			if err != nil {
				return "", err
			}
			// A program behind the fast path's own makes the daemon attach its own again, which
			// then runs behind the other.
			if p.start == at {
				programs = programs[ours:] // none, if the fast path's own is still to be attached
			}
			if name := foreign(programs); name != "" {
				return fmt.Sprintf("has a BPF program %s at its %s", name, pointNames[at]), nil
			}
		}
	}
	return "", nil
}

// wireRefusal says what at a wire, or at a device below it, is in the way of carried packets; "":
// nothing.
func (d *daemon) wireRefusal(wire int, tc map[int]topology.TCState) (string, error) {
	reason, err := d.refusal(crossing{wire, tc[wire], d.ingress(), true})
	for _, lower := range tc[wire].Lower {
		if reason == "" && err == nil {
			reason, err = d.lowerRefusal(lower, tc[lower])
		}
	}
	return reason, err
}

// lowerRefusal says what at a device below the wire may treat carried packets in another way than
// others; "": nothing. All of them cross it. But those that leave lack marks and conntrack entries, and
// what marks those that come in, for rules to read, is not audited.
func (d *daemon) lowerRefusal(device int, tc topology.TCState) (string, error) {
	programs, _, err := d.programs.list(attachPoint{device, kernel.Ingress})
	if err != nil {
		return "", err
	}
	why := ""
	switch name := foreign(programs); {
	case d.audit.rules.DirectionsAt(tc.Name) != 0:
		why = "has an nftables chain"
	case tc.ForeignFilters&audit.Ingress != 0:
		why = "has tc filters at its ingress"
	case name != "":
		why = fmt.Sprintf("has a BPF program %s at its ingress", name)
	default: // the readers at its queueing disciplines are among those of the wire
		why, err = d.metadataReader(crossing{index: device, tc: tc})
	}
	if why != "" {
		why = topology.StandsOn(tc.Name, why)
	}
	return why, err
}

// metadataReader says what at a device through which carried packets leave may read more
// than the packet itself, which carried packets lack or have otherwise; "": nothing. What a
// program reads is not known. Filters that are proven read marks at most, which rules may set.
func (d *daemon) metadataReader(p crossing) (string, error) {
	programs, _, err := d.programs.list(attachPoint{p.index, kernel.Egress})
	if err != nil {
		return "", err
	}
	by := p.tc.UnknownReader
	if name := foreign(programs); name != "" {
		by = fmt.Sprintf("a BPF program %s at its egress", name)
	}
	if by != "" {
		return "has " + by + ", which may depend on more than the packet itself", nil
	}
	if p.tc.MarkReader == "" || d.audit.rules.MarkChain == "" {
		return "", nil
	}
	return fmt.Sprintf("has %s, which may depend on marks that rules set (%s)", p.tc.MarkReader, d.audit.rules.MarkChain), nil
}
