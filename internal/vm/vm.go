// Package vm starts virtual machines that run this very program, under a kernel
// of one's choice, and speaks with it. What happens inside is package guest's.
//
// A machine is one process of qemu, which dies with the process that started
// it. It leaves no file: its first file system and its channel are descriptors
// that qemu inherits, so nobody else can reach them either.
package vm

import (
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Accel is what runs the machine's instructions.
type Accel string

// Kinds of acceleration. Auto uses KVM only if a small machine under the same kernel has reached
// its first process with it: the device file alone proves nothing.
const (
	Auto Accel = ""
	KVM  Accel = "kvm"
	TCG  Accel = "tcg" // emulation: ten times slower or more
)

// Config says which machine to start. It can be stored as JSON, for `venturi guest`, except for In.
type Config struct {
	Kernel kernel.Kernel
	// Program starts this very program; Program[0] becomes the guest's first process. The rest, if
	// any, are its first arguments.
	Program []string
	Name    string // hostname of the guest; empty: this host's
	Accel   Accel
	CPUs    int // zero: as many as this host has, but at most 64, emulated 8
	Memory  int // MiB; zero: enough for a lab, or for an agent
	// Root mounts this host's file system as the guest's root. Writes go to memory and are gone
	// with the guest.
	Root bool
	// Writable are folders of this host that the guest may write, at the same paths; with Root
	// only.
	Writable []string
	// Modules are kernel modules to load at boot, besides those that booting takes. With Root the
	// guest's kernel loads others on demand.
	Modules []string
	NICs    []NIC // eth0, eth1, ... in the guest
	// Settings are sysctls of the guest, set before anything else runs there.
	Settings []netcfg.Sysctl
	// Agent makes the guest serve package agent, as the machine of this name, to agent clients;
	// other clients run commands. Empty: it only runs commands.
	Agent   string
	Console string // file for the console's output; empty: none
	// In is the namespace of qemu and of the taps; nil: the current one.
	In *netcfg.Namespace `json:"-"`

	StartLimit   time.Duration // for starting; zero: 3 minutes, 10 emulated
	SilenceLimit time.Duration // without an answer, it counts as hung; zero: 45 seconds, 4 minutes emulated
}

// Model is the card that qemu emulates.
type Model string

// Models. Only Virtio has several queues, a Vhost, and an MTU of its own.
const (
	Virtio  Model = ""
	E1000E  Model = "e1000e"
	VMXNet3 Model = "vmxnet3"
)

// NIC is a network card of the guest.
type NIC struct {
	Model      Model
	Tap        string // name of the tap device at the host's end; it must exist
	MAC        string
	MTU        int  // bytes; zero: 1500
	Queues     int  // queue pairs; zero: one. More take a multi-queue tap
	Vhost      bool // the host's kernel moves the packets, not qemu
	Hash       bool // the guest configures how the card spreads packets over its queues
	Addr       netip.Prefix
	Neighbours []Neighbour // permanent entries, so that no ARP is sent
}

// Neighbour is a permanent entry of the neighbour table.
type Neighbour = guest.Neighbour

// Command is a command to run in a guest.
type Command = guest.Command

// Size is the size of a terminal.
type Size = guest.Size

// Dialer opens another stream to a guest; Guest.Dial is one.
type Dialer = guest.Dialer
