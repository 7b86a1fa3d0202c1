package path

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

// In these paths the ends are in virtual machines, one on each machine, wired as
// OpenStack wires those of its users: the card of the virtual machine is a tap,
// the tap is on a bridge of its own (where security groups would filter), and a
// veth pair joins that to Open vSwitch, from which one tag or tunnel leads to
// the other machine.
//
//	virtual machine - tap0 - qbr0 - qvb0 = pod0 - br-int - card0
//
// All of it is in the namespace of the arm's switch. The virtual machine runs
// this very program, as an agent that opens sockets in there; a process of ours
// holds it and leads others to that agent.

// Names of the devices between the virtual machine and the switch.
const (
	vmTap    = "tap0"
	vmBridge = "qbr0"
	vmVeth   = "qvb0" // the bridge's end; the switch's is called as that of a pod
)

// Values of the options of all of them.
const (
	vmAuto     = "auto"
	vmMaxQueue = 16
	vmMaxCPUs  = 64
	vmMaxHosts = 4 // a virtual machine on each, and only those of two are measured
)

// vmOptions are those of a virtual machine, behind those of the switch's path
// that make sense when there is one pod, on a veth pair.
func vmOptions(of []Option) []Option {
	of = slices.DeleteFunc(slices.Clone(of), func(o Option) bool {
		return slices.Contains([]string{"port", "ids", "tunnels", mtuName}, o.Name)
	})
	return append(of,
		number("queues", 1, vmMaxQueue, "1", "pairs of queues of the virtual machine's card"),
		choice("vhost", []string{vmAuto, "on", "off"}, vmAuto, "let the kernel move the packets of the card, or qemu, or the kernel where it can"),
		choice("accel", []string{vmAuto, string(vm.KVM), string(vm.TCG)}, vmAuto,
			"what runs the virtual machine: KVM, emulation, or KVM where it works; an emulated one takes no verdict beside native paths"),
		Option{
			Name: "kernel", Value: "VERSION|FILE", Help: "kernel of the virtual machine, as --kernel takes it; the newest one kept when not given",
			read: func(text string) (string, error) {
				if text == "" {
					return "", errors.New("kernel is empty")
				}
				return text, nil
			},
		},
		number("cpus", 1, vmMaxCPUs, "2", "CPUs of the virtual machine"),
		number("memory", 128, 1<<20, "512", "memory of the virtual machine, MiB"),
		mtu)
}

// vmVLANOptions are of a path that has one tag, for its one pod.
func vmVLANOptions() []Option {
	return []Option{number("vlan", 1, maxVLAN, "100", "id of the tag on the wire")}
}

// vmSettle says what a switch needs to know of its one pod, and finds out what
// else is open, so that a record says it.
func vmSettle(v Values) error {
	if v.Int("queues") > v.Int("cpus") {
		return fmt.Errorf("%s queues need as many CPUs, and the virtual machine has %s", v["queues"], v["cpus"])
	}
	v["port"], v["ids"], v["tunnels"] = ovsVeth, "1", "1"
	if v["vhost"] == vmAuto {
		v["vhost"] = "off"
		if answer, _ := feature.VhostNet.Ask(); answer == feature.Yes {
			v["vhost"] = "on"
		}
	}
	if v["kernel"] == "" {
		if kept, err := kernel.List(); err == nil && len(kept) > 0 {
			v["kernel"] = kept[0].Release
		}
	}
	return ovsSettle(v)
}

// vmFits keeps a lab of many machines from starting a virtual machine on each:
// they take memory and CPUs from what is measured.
func vmFits(a Arm, hosts int) error {
	if hosts <= vmMaxHosts {
		return nil
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s on %d machines", a.Name, hosts),
		fmt.Sprintf("it starts a virtual machine with %s MiB and %s CPUs on each, and supports at most %d machines", a.Options["memory"], a.Options["cpus"], vmMaxHosts),
		fmt.Sprintf("give --hosts %d or less, or leave this path out", vmMaxHosts))
}

// vmNeeds is what such a path needs beside what its switch does.
func vmNeeds(v Values, switchNeeds []feature.Need) []feature.Need {
	needs := append(switchNeeds, vm.Needs()...)
	needs = append(needs, keptKernel(v["kernel"]), feature.Tap, feature.Bridge)
	if v.Enabled("vhost") {
		needs = append(needs, feature.VhostNet)
	}
	return needs
}

// keptKernel is the need for a kernel, by what [kernel.Find] takes; empty: for
// any that is kept.
type keptKernel string

// String is of [feature.Need].
func (k keptKernel) String() string {
	if k == "" {
		return "a kernel for virtual machines (venturi kernel fetch " + kernel.Default + ")"
	}
	return "kernel " + string(k)
}

// Ask is of [feature.Need].
func (k keptKernel) Ask() (feature.Answer, error) {
	if k == "" {
		kept, err := kernel.List()
		switch {
		case err != nil:
			return feature.Unknown, err
		case len(kept) == 0:
			return feature.No, errors.New("none is stored on this machine")
		}
		return feature.Yes, nil
	}
	if _, err := kernel.Find(string(k)); err != nil {
		if told := new(verr.Error); errors.As(err, &told) {
			err = errors.New(told.Reason)
		}
		return feature.No, err
	}
	return feature.Yes, nil
}

// Lack is of [feature.Need].
func (k keptKernel) Lack() (lacks, get string) {
	get = "fetch one with: venturi kernel fetch " + kernel.Default
	if k == "" {
		return "there is no kernel for the virtual machines", get
	}
	_, err := kernel.Find(string(k))
	if told := new(verr.Error); errors.As(err, &told) {
		get = told.Hint
	}
	return "there is no kernel " + string(k) + " for the virtual machines", get
}

// vmUp builds the path on all machines at once; variant says what their switches are
// to do with what comes from the virtual machines.
func vmUp(ctx context.Context, s *Site, variant ovsVariant) (Ends, error) {
	k, err := kernel.Find(s.Options["kernel"])
	if err != nil {
		return nil, err
	}
	return onOVSHosts(ctx, s, func(ctx context.Context, h *ovsHost) ([]host.Endpoint, error) {
		v := vmHost{ovsHost: h, kernel: k}
		return v.build(ctx, variant)
	})
}

// vmHost is one machine's part of a path to a virtual machine.
type vmHost struct {
	*ovsHost
	kernel kernel.Kernel
	socket string // leads to the agent in the virtual machine
	log    string // file of what the holder says
	holder *netcfg.Child
}

// build starts the virtual machine first: it boots while its switch is made.
func (h *vmHost) build(ctx context.Context, variant ovsVariant) ([]host.Endpoint, error) {
	if err := h.plugIn(); err != nil {
		return nil, err
	}
	if err := h.boot(); err != nil {
		return nil, err
	}
	if err := h.connect(ctx, variant); err != nil {
		return nil, err
	}
	if err := h.holder.Await(ctx, vmStartLimit, h.reach); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, verr.ReadFile(h.log, err)
	}
	version, err := vm.Version(ctx)
	if err != nil {
		return nil, err
	}
	h.Report("qemu", version)
	h.Report("guest-linux", h.kernel.Release)
	return []host.Endpoint{{
		Machine: h.Machines[h.machine].Name, Namespace: h.in.Path(), Device: podDevice,
		Addr: h.podAddr(h.machine, 0), MTU: h.MTU, Agent: h.socket,
	}}, nil
}

// plugIn makes what is between the virtual machine and the switch.
func (h *vmHost) plugIn() error {
	if err := h.in.AddTap(netcfg.Tap{Name: vmTap, MTU: h.MTU, Queues: h.Options.Int("queues")}); err != nil {
		return err
	}
	if err := h.in.AddBridge(vmBridge, nil, h.MTU); err != nil {
		return err
	}
	port := h.podDeviceOf(0)
	if err := netcfg.AddVeth(netcfg.VethEnd{In: h.in, Name: port}, netcfg.VethEnd{In: h.in, Name: vmVeth}, h.MTU); err != nil {
		return err
	}
	for _, device := range []string{vmTap, vmVeth} {
		if err := h.in.Enslave(device, vmBridge, false); err != nil {
			return err
		}
	}
	if !h.daemon {
		return nil
	}
	if err := h.wholeFrames(port); err != nil {
		return err
	}
	// The virtual machine leaves checksums and cutting to its card. The switch's
	// own process takes frames as they are on the wire, so both are done here.
	return h.in.Features(vmVeth, map[string]bool{"tx-checksum-ip-generic": false})
}

const (
	// vmStartLimit is how long a virtual machine may take to come up: more than it
	// gets from its holder, whose reason is the better one.
	vmStartLimit = vm.LongestStart + time.Minute
	// vmReach is how long its holder may take to answer a knock.
	vmReach = 10 * time.Second
)

// boot starts the holder of the virtual machine.
func (h *vmHost) boot() error {
	folder, err := h.Folder(h.machine)
	if err != nil {
		return err
	}
	h.socket = filepath.Join(folder, "vm.sock")
	file := filepath.Join(folder, "vm.json")
	if err := h.config().Write(file); err != nil {
		return err
	}
	args := append(slices.Clone(h.Program), "guest", "--config", file, "--socket", h.socket)
	if h.Keep {
		args = append(args, "--detach")
	}
	h.log = filepath.Join(folder, "vm.log")
	h.holder, err = h.Start(h.machine, h.in, netcfg.Command{Args: args, Log: h.log})
	return err
}

func (h *vmHost) config() vm.Config {
	c := vm.Config{
		Kernel: h.kernel, Program: h.Program, Name: strings.ReplaceAll(h.Machines[h.machine].Name+"-"+h.Arm, ".", "-"),
		CPUs: h.Options.Int("cpus"), Memory: h.Options.Int("memory"), Agent: h.Machines[h.machine].Name,
		NICs: []vm.NIC{{
			Tap: vmTap, MAC: h.podMAC(h.machine, 0).String(), MTU: h.MTU, Queues: h.Options.Int("queues"), Vhost: h.Options.Enabled("vhost"),
			Addr: netip.PrefixFrom(h.podAddr(h.machine, 0), Pods.Bits()),
		}},
		Settings: h.Settings,
	}
	if accel := h.Options["accel"]; accel != vmAuto {
		c.Accel = vm.Accel(accel)
	}
	for j := range h.otherMachines(h.machine) {
		c.NICs[0].Neighbours = append(c.NICs[0].Neighbours, vm.Neighbour{Addr: h.podAddr(j, 0), MAC: h.podMAC(j, 0).String()})
	}
	return c
}

// reach is nil when the virtual machine is up: only then does its holder listen.
func (h *vmHost) reach(ctx context.Context) error {
	d := net.Dialer{Timeout: vmReach}
	conn, err := d.DialContext(ctx, "unix", h.socket)
	if err != nil {
		return fmt.Errorf("the virtual machine is not up: %w", err)
	}
	return conn.Close()
}

// connect makes the switch, whose one pod is the virtual machine.
func (h *vmHost) connect(ctx context.Context, variant ovsVariant) error {
	if err := h.start(ctx); err != nil {
		return err
	}
	defer h.sw.Close()
	uplink, bridges := variant.uplink(h.ovsHost)
	ports := []ovs.Port{uplink, {Name: h.podDeviceOf(0), Number: ovsFirstPod}}
	bridges = append(bridges, ovs.Bridge{Name: ovsBridge, Datapath: h.Options["datapath"], Ports: ports})
	if err := h.sw.AddBridges(ctx, bridges...); err != nil {
		return err
	}
	if variant.join != nil {
		if err := variant.join(ctx, h.ovsHost); err != nil {
			return err
		}
	}
	return h.sw.AddFlows(ctx, ovsBridge, variant.flows(h.ovsHost)...)
}
