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

// The kinds of it. KVM is used by Auto only when a small machine under the same
// kernel got to its first process with it: the device file proves nothing.
const (
	Auto Accel = ""
	KVM  Accel = "kvm"
	TCG  Accel = "tcg" // emulation: ten times slower or more
)

// Config says which machine to start. It can be kept as JSON, for
// `venturi guest`, but for In.
type Config struct {
	Kernel kernel.Kernel
	// Program starts this very program; Program[0] becomes the guest's first
	// process. The rest, if any, are its first arguments.
	Program []string
	Name    string // of the guest, as its hostname; empty: this machine's
	Accel   Accel
	CPUs    int // zero: as many as this machine has
	Memory  int // MiB; zero: what suffices for a lab, or for an agent
	// Root puts this machine's file system underneath: it can be read, and what
	// is written goes to memory and is gone with the guest.
	Root bool
	// Writable are folders of this machine that the guest may write, seen at
	// the same paths; for Root only.
	Writable []string
	// Modules of the kernel to load at boot beyond those that booting takes.
	// With Root the guest's kernel loads others when it needs them.
	Modules []string
	NICs    []NIC // they are eth0, eth1, ... in the guest
	// Settings are sysctls of the guest, set before anything else runs there.
	Settings []netcfg.Sysctl
	// Agent makes the guest serve package agent, as the machine of this name, to
	// those who speak to one; to all others it runs commands. Empty: it runs
	// commands only.
	Agent   string
	Console string // file that gets the console's output; empty: none
	// In is where qemu is started, and where the taps are; nil: here.
	In *netcfg.Namespace `json:"-"`

	StartLimit   time.Duration // how long it may take to start; zero: 3 minutes, 10 emulated
	SilenceLimit time.Duration // after how long without an answer it counts as hung; zero: 45 seconds, 4 minutes emulated
}

// Model is what card qemu plays.
type Model string

// Models. Only Virtio has several queues, a Vhost, and an MTU of its own.
const (
	Virtio  Model = ""
	E1000E  Model = "e1000e"
	VMXNet3 Model = "vmxnet3"
)

// NIC is a card of the guest.
type NIC struct {
	Model      Model
	Tap        string // name of the tap device that its other end is; it must be there
	MAC        string
	MTU        int  // bytes; zero: 1500
	Queues     int  // pairs of queues; zero: one. The tap must be a multi-queue one for more
	Vhost      bool // the host's kernel moves the packets, not qemu
	Hash       bool // the card shares packets out among its queues as the guest says
	Addr       netip.Prefix
	Neighbours []Neighbour // entries that never expire, so that nobody asks
}

// Neighbour is one of them.
type Neighbour = guest.Neighbour

// Command is what to run in a guest.
type Command = guest.Command

// Size is that of a terminal.
type Size = guest.Size

// Dialer opens one more stream to a guest; Guest.Dial is one.
type Dialer = guest.Dialer
