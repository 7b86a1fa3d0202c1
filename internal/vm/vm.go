// Package vm starts virtual machines that run this very program, under a kernel
// of one's choice, and speaks with it. What happens inside is package guest's.
//
// A machine is one process of qemu, which dies with the process that started
// it. It leaves no file: its first file system and its channel are descriptors
// that qemu inherits, so nobody else can reach them either.
package vm

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/kernel"
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
	// Agent makes the guest serve package agent on every stream, as the machine
	// of this name. Empty: it runs commands.
	Agent   string
	Console string // file that gets the console's output; empty: none
	// In is where qemu is started, and where the taps are; nil: here.
	In *change.Namespace `json:"-"`

	StartLimit   time.Duration // how long it may take to start; zero: 3 minutes
	SilenceLimit time.Duration // after how long without an answer it counts as hung; zero: 45 seconds
}

// NIC is a virtio-net card of the guest.
type NIC struct {
	Tap        string // name of the tap device that its other end is; it must be there
	MAC        string
	MTU        int  // bytes; zero: 1500
	Queues     int  // pairs of queues; zero: one. The tap must be a multi-queue one for more
	Vhost      bool // the host's kernel moves the packets, not qemu
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

// Guest is a machine that runs.
type Guest struct{}

// Start starts a machine and returns when its first process answers. When ctx
// ends before that, nothing is left. The error is one for users.
func Start(ctx context.Context, c Config) (*Guest, error) { panic("to come") }

// Dial opens one more stream to the guest: of its agent, or one that [Run] and
// [Remote] speak on.
func (g *Guest) Dial(ctx context.Context) (net.Conn, error) { panic("to come") }

// Run runs a command in the guest and gives its exit code: 128 and the number
// of the signal when one ended it. When ctx ends, the command is interrupted as
// by Ctrl-C, and after a while killed. The error tells that it could not be
// started, or that its end is not known; it is one for users.
func (g *Guest) Run(ctx context.Context, c Command) (exit int, err error) { panic("to come") }

// Serve opens the guest to other processes: each connection to the unix socket
// becomes a stream, until ctx or the guest ends. The socket's folder must be
// private.
func (g *Guest) Serve(ctx context.Context, socket string) error { panic("to come") }

// Done is closed when the guest has ended and nothing is left of it.
func (g *Guest) Done() <-chan struct{} { panic("to come") }

// Ended tells how it ended by itself: an error for users, with the console's
// last lines; nil after Close. Call it when Done is closed.
func (g *Guest) Ended() error { panic("to come") }

// Accel is what it runs on.
func (g *Guest) Accel() Accel { panic("to come") }

// Close ends the guest at once. What was written to Writable folders stays.
func (g *Guest) Close() error { panic("to come") }

// Remote is a guest that another process holds, behind the socket of its
// [Guest.Serve].
type Remote struct{ Socket string }

// Dial is as that of [Guest].
func (r Remote) Dial(ctx context.Context) (net.Conn, error) { panic("to come") }

// Run is as that of [Guest].
func (r Remote) Run(ctx context.Context, c Command) (exit int, err error) { panic("to come") }
