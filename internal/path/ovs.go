package path

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
)

// The paths of Open vSwitch are wired as in Red Hat's comparison of QinQ with
// tunnels: one bridge a machine, its port 1 leads to the other machines, and
// each of the ports from 2 on to a pod. The pods that belong together meet by
// an outer address or a tag of their own. Flows say all of that, and no MAC is
// learned.
//
// Each arm has a switch of its own on each machine, with its own daemons, in a
// namespace of its own, with a network card of its own: several switches cannot
// share a namespace, and the load on one path must not slow down another.

// Values of the options of all of them.
const (
	ovsKernel   = ovs.Kernel
	ovsDaemon   = ovs.Daemon
	ovsAuto     = "auto"
	ovsVeth     = "veth"
	ovsInternal = "internal"
)

// ovsOptions are those of every path of Open vSwitch, around those of one.
func ovsOptions(own ...Option) []Option {
	common := []Option{
		choice("datapath", []string{ovsKernel, ovsDaemon, ovsAuto}, ovsKernel,
			"what forwards: the kernel's module (system), the switch's own process (netdev), or the module if there is one"),
		choice("port", []string{ovsVeth, ovsInternal}, ovsVeth,
			"what joins pods and switch: veth pairs, or internal ports of the switch moved into the pods (which with netdev carry no more than 1500 bytes)"),
	}
	return append(append(common, own...), mtu)
}

// ovsSettle finds out which datapath it is to be, so that a record says it.
func ovsSettle(v Values) error {
	if v["datapath"] != ovsAuto {
		return nil
	}
	v["datapath"] = ovsDaemon
	if answer, _ := feature.OVSDatapath.Ask(); answer == feature.Yes {
		v["datapath"] = ovsKernel
	}
	return nil
}

// ovsNeeds is what a path of Open vSwitch needs; kernel is for the kernel's
// datapath only.
func ovsNeeds(v Values, kernel ...feature.Need) []feature.Need {
	needs := ovs.Needs()
	if v["datapath"] == ovsKernel {
		needs = append(append(needs, feature.OVSDatapath), kernel...)
	}
	return needs
}

// ovsMTU is the MTU of the pods of a path whose wire must have so many bytes
// more.
func ovsMTU(more int) func(int, Values) int {
	return func(wire int, v Values) int {
		if v["datapath"] == ovsDaemon && v["port"] == ovsInternal {
			// The daemon cannot see the MTU of a port that was moved to another
			// namespace, takes it for Ethernet's, and cuts off what is longer.
			return min(wire-more, ethernetMTU)
		}
		return wire - more
	}
}

const ethernetMTU = 1500

// Names of the devices and bridges in the namespace of a switch.
const (
	ovsCard     = "card0"
	ovsBridge   = "br-int"
	ovsUnderlay = "br-phy" // joins tunnels to the card, for the daemon's datapath
)

// Numbers of ports.
const (
	ovsUplink   = 1
	ovsFirstPod = 2
)

// ovsVariant is what tells the paths of Open vSwitch apart.
type ovsVariant struct {
	pods   int               // a machine
	config map[string]string // the switch's other_config
	// uplink gives port 1 of the bridge, and the bridges that it needs besides.
	uplink func(h *ovsHost) (port ovs.Port, more []ovs.Bridge)
	// join makes what the uplink needs when it is there; nil: nothing.
	join  func(ctx context.Context, h *ovsHost) error
	flows func(h *ovsHost) []string
}

// ovsHost is one machine's part of a path.
type ovsHost struct {
	*Site
	machine int // its index
	in      *netcfg.Namespace
	runtime ovs.Runtime // of the daemons, in there
	sw      *ovs.Switch
	daemon  bool // the switch's own process forwards
}

// ovsHosts gives every machine a namespace for its switch, with a card.
func ovsHosts(s *Site) ([]*ovsHost, error) {
	hosts := make([]*ovsHost, len(s.Machines))
	cards := make([]netcfg.VethEnd, len(s.Machines))
	for i, m := range s.Machines {
		if m.In == nil {
			continue
		}
		in, err := s.SwitchNetns(i, "ovs")
		if err != nil {
			return nil, err
		}
		folder, err := s.Folder(i)
		if err != nil {
			return nil, err
		}
		runtime := ovs.Runtime{In: in, Folder: folder, Start: func(c netcfg.Command) (*netcfg.Child, error) {
			return s.Start(i, in, c)
		}}
		hosts[i] = &ovsHost{Site: s, machine: i, in: in, runtime: runtime, daemon: s.Options["datapath"] == ovsDaemon}
		cards[i] = netcfg.VethEnd{In: in, Name: ovsCard, MAC: s.mac(i, roleCard)}
	}
	return hosts, s.Cards(cards, s.allMACs)
}

func (w ovsVariant) up(ctx context.Context, s *Site) (Ends, error) {
	return onOVSHosts(ctx, s, w.host)
}

// onOVSHosts builds a path on all machines at once.
func onOVSHosts(ctx context.Context, s *Site, build func(context.Context, *ovsHost) ([]host.Endpoint, error)) (Ends, error) {
	hosts, err := ovsHosts(s)
	if err != nil {
		return nil, err
	}
	ends := make(Ends, len(hosts))
	group, ctx := errgroup.WithContext(ctx)
	for i, h := range hosts {
		if h == nil {
			continue
		}
		group.Go(func() (err error) {
			ends[i], err = build(ctx, h)
			return err
		})
	}
	return ends, group.Wait()
}

// host builds one machine's part.
func (w ovsVariant) host(ctx context.Context, h *ovsHost) (ends []host.Endpoint, err error) {
	if err := h.start(ctx); err != nil {
		return nil, err
	}
	defer h.sw.Close()
	if err := h.sw.Configure(ctx, w.config); err != nil {
		return nil, err
	}
	pods := make([]*netcfg.Namespace, w.pods)
	for n := range pods {
		if pods[n], err = h.Pod(h.machine, n); err != nil {
			return nil, err
		}
	}
	port, bridges := w.uplink(h)
	ports := []ovs.Port{port}
	for n, pod := range pods {
		port, err := h.podPort(n, pod)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	bridges = append(bridges, ovs.Bridge{Name: ovsBridge, Datapath: h.Options["datapath"], Ports: ports})
	if err := h.sw.AddBridges(ctx, bridges...); err != nil {
		return nil, err
	}
	ends, err = eachPod(w.pods, func(n int) (host.Endpoint, error) { return h.podEnd(n, pods[n]) })
	if err != nil {
		return nil, err
	}
	if w.join != nil {
		if err := w.join(ctx, h); err != nil {
			return nil, err
		}
	}
	return ends, h.sw.AddFlows(ctx, ovsBridge, w.flows(h)...)
}

// start starts the switch, and makes the card ready for it.
func (h *ovsHost) start(ctx context.Context) (err error) {
	if err := h.wholeFrames(ovsCard); err != nil {
		return err
	}
	if h.sw, err = ovs.Start(ctx, h.runtime); err != nil {
		return err
	}
	h.Report("openvswitch", h.sw.Version)
	return nil
}

// wholeFrames keeps the kernel from merging what a device receives. The
// switch's own process takes frames as they are on the wire, and cuts off what
// is longer.
func (h *ovsHost) wholeFrames(device string) error {
	if !h.daemon {
		return nil
	}
	return h.in.Features(device, map[string]bool{"rx-gro": false})
}

// podDeviceOf is the switch's end of a pod's link.
func (h *ovsHost) podDeviceOf(n int) string { return fmt.Sprintf("pod%d", n) }

// podPort makes the link of a pod, unless the switch is to, and gives the port
// for it.
func (h *ovsHost) podPort(n int, pod *netcfg.Namespace) (ovs.Port, error) {
	port := ovs.Port{Name: h.podDeviceOf(n), Number: ovsFirstPod + n}
	if h.Options["port"] == ovsInternal {
		port.Type, port.MAC, port.MTU = ovsInternal, h.podMAC(h.machine, n), h.MTU
		return port, nil
	}
	if err := h.addPodVeth(h.machine, n, pod, netcfg.VethEnd{In: h.in, Name: port.Name}); err != nil {
		return port, err
	}
	if !h.daemon {
		return port, nil
	}
	if err := h.wholeFrames(port.Name); err != nil {
		return port, err
	}
	// For the same reason the pod cuts its streams itself. It also computes its
	// checksums, which otherwise nobody would.
	return port, pod.Features(podDevice, map[string]bool{"tx-checksum-ip-generic": false})
}

// podEnd makes a pod an end of traffic, when the switch has its port.
func (h *ovsHost) podEnd(n int, pod *netcfg.Namespace) (host.Endpoint, error) {
	end := h.podEndpoint(h.machine, n, pod)
	if h.Options["port"] == ovsInternal {
		if !h.daemon {
			// The kernel's datapath knows its ports by name, wherever they are: one that
			// is renamed is gone for it, and it makes another.
			end.Device = h.podDeviceOf(n)
		}
		if err := h.in.Move(h.podDeviceOf(n), pod, end.Device); err != nil {
			return end, err
		}
		// The switch has been asked for it, but may not have come to it before the
		// port moved, and does not reach it there.
		if err := pod.SetMTU(end.Device, h.MTU); err != nil {
			return end, err
		}
	}
	return end, h.joinSubnet(h.machine, n, pod, end.Device)
}

// ovsCardPort is the network card as a port.
func ovsCardPort() ovs.Port { return ovs.Port{Name: ovsCard, Number: ovsUplink} }
