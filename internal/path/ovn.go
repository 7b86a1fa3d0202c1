package path

import (
	"context"
	"net/netip"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovn"
	"github.com/venturi-net/venturi/internal/ovs"
)

// The paths of OVN are wired as Kube-OVN wires a cluster: one central, on the
// first machine here; beside each machine's switch a controller that writes the
// flows; and the pods of all machines on one logical switch, which is their
// subnet. The switches, cards and pods are those of the paths of Open vSwitch.
//
// A load balancer for Services is attached to the logical switch when it is
// asked for. OVN then sends all that the pods send and get through connection
// tracking, to find the little that is meant for a Service, and what comes back
// from there is looked up once more. Kube-OVN's own build of OVN can spare
// traffic between pods that; the one that distributions carry cannot.
//
// Where the switch's own process tracks connections, a datagram in more than 32
// fragments comes through only in part until another packet follows: they are
// put together to be tracked, and no more of them fit into one batch. It is so
// in Open vSwitch up to 3.6.

// ovnOptions are those of every path of OVN, around those of one.
func ovnOptions(balancer string, own ...Option) []Option {
	return ovsOptions(append(own,
		onOff("lb", balancer, "attach load balancers for Services to the logical switch: all packets are tracked "+
			"(which with netdev holds up datagrams in more than 32 fragments)"),
		number("services", 1, maxServices, "100", "Services that are balanced, when lb=on"))...)
}

// maxServices is how many there can be. OVN takes seconds for so many.
const maxServices = 10000

// ovnNeeds is what a path of OVN needs; kernel is for the kernel's datapath
// only.
func ovnNeeds(v Values, kernel ...feature.Need) []feature.Need {
	return slices.Concat(ovsNeeds(v, kernel...), ovn.Needs())
}

// ovnVariant is what tells the paths of OVN apart.
type ovnVariant struct {
	network ovn.Network // beside the pods' ports and the Services
	// bridges are those that the switch needs besides the one of the pods.
	bridges func(h *ovsHost) []ovs.Bridge
	// join makes ready what the bridges need when they are there.
	join func(ctx context.Context, h *ovsHost) error
	// pod tells a pod what it needs to know beside its peers; nil: nothing.
	pod func(pod *netcfg.Namespace, device string) error
	// chassis completes what OVN is told of a machine.
	chassis func(h *ovsHost, c *ovn.Chassis)
}

func (w ovnVariant) up(ctx context.Context, s *Site) (Ends, error) {
	hosts, err := ovsHosts(s)
	if err != nil {
		return nil, err
	}
	var central *ovn.Central
	defer func() {
		if central != nil {
			central.Close()
		}
		for _, h := range hosts {
			if h.sw != nil {
				h.sw.Close()
			}
		}
	}()
	ends := make(Ends, len(hosts))
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if central, err = ovn.StartCentral(groupCtx, hosts[0].runtime, w.topology(s)); err == nil {
			s.Report("ovn", central.Version)
		}
		return err
	})
	for i, h := range hosts {
		group.Go(func() (err error) {
			ends[i], err = w.host(groupCtx, h)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	// A controller comes last: one that finds no central, or no bridge, waits
	// a whole second before it looks again.
	controllers := make([]*netcfg.Child, len(hosts))
	for i, h := range hosts {
		c := ovn.Chassis{
			Name: s.Machines[i].Name, Remote: central.Remote(), Bridge: ovsBridge, Datapath: s.Options["datapath"],
			EncapIP: s.outer(i, 0),
		}
		w.chassis(h, &c)
		if controllers[i], err = ovn.StartController(ctx, h.runtime, h.sw, c); err != nil {
			return nil, err
		}
	}
	return ends, central.Wait(ctx, controllers...)
}

// topology is the network with the pods and Services of all machines.
func (w ovnVariant) topology(s *Site) ovn.Network {
	n := w.network
	var endpoints []netip.AddrPort
	for i := range s.Machines {
		n.Ports = append(n.Ports, ovn.Port{Name: ovnPort(s, i), MAC: s.podMAC(i, 0), Addr: s.podAddr(i, 0)})
		endpoints = append(endpoints, netip.AddrPortFrom(s.podAddr(i, 0), servicePort))
	}
	if s.Options.Enabled("lb") {
		n.Services = map[netip.AddrPort][]netip.AddrPort{}
		for k := range s.Options.Int("services") {
			n.Services[netip.AddrPortFrom(nthAddr(serviceNet, 1+k), servicePort)] = endpoints
		}
	}
	return n
}

// serviceNet is the range of the addresses of Services, the one that clusters
// have by default.
var serviceNet = netip.MustParsePrefix("10.96.0.0/12")

const servicePort = 80

// ovnPort is the name of a machine's pod, as Kube-OVN makes it of the pod's and
// its Kubernetes namespace's.
func ovnPort(s *Site, i int) string { return "pod." + s.Machines[i].Name }

// host builds one machine's switch and pod.
func (w ovnVariant) host(ctx context.Context, h *ovsHost) ([]host.Endpoint, error) {
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	pod, err := h.Pod(h.machine, 0)
	if err != nil {
		return nil, err
	}
	port, err := h.podPort(0, pod)
	if err != nil {
		return nil, err
	}
	port.ExternalIDs = map[string]string{"iface-id": ovnPort(h.Site, h.machine)}
	own := ovs.Bridge{Name: ovsBridge, Datapath: h.Options["datapath"], Ports: []ovs.Port{port}}
	if err := h.sw.AddBridges(ctx, append(w.bridges(h), own)...); err != nil {
		return nil, err
	}
	end, err := h.podEnd(0, pod)
	if err != nil {
		return nil, err
	}
	if w.pod != nil {
		if err := w.pod(pod, end.Device); err != nil {
			return nil, err
		}
	}
	if err := w.join(ctx, h); err != nil {
		return nil, err
	}
	return []host.Endpoint{end}, h.smallFragments(ctx)
}

// What connection tracking of the switch's own process takes for an attack: a
// fragment, but the last one, of fewer bytes. It can be told another number,
// down to a bound.
const (
	fragmentPreset = 1200
	fragmentBound  = 400
	fragmentStep   = 8 // to a multiple of which the length of a fragment is rounded down
)

// ovnLeast: with a smaller MTU no datagram in fragments would come through.
func ovnLeast(v Values) int {
	if v["datapath"] == ovsDaemon && v.Enabled("lb") {
		return fragmentBound + fragmentStep
	}
	return minMTU
}

// smallFragments lets the fragments of datagrams pass where the pods' MTU makes
// them small. Whether packets are tracked is not asked: untracked ones are not
// looked at.
func (h *ovsHost) smallFragments(ctx context.Context) error {
	if !h.daemon || h.MTU >= fragmentPreset+fragmentStep {
		return nil
	}
	_, err := h.sw.Ask(ctx, "dpctl/ipf-set-min-frag", "v4", strconv.Itoa(fragmentBound))
	return err
}
