package vm

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// qemu is the emulator's program, which Red Hat's systems keep from users of the command line.
var qemu = feature.Program{Name: "qemu-system-x86_64", Package: "qemu-system-x86", Alternative: "/usr/libexec/qemu-kvm"}

// Needs are the programs that starting a machine takes.
func Needs() []feature.Need { return []feature.Need{qemu} }

// Version returns the version of qemu: "7.2.22".
func Version(ctx context.Context) (string, error) {
	program, err := qemu.Find()
	if err != nil {
		return "", err
	}
	var out strings.Builder
	child, err := netcfg.BoundCommand{Args: []string{program, "--version"}, Output: &out}.Start(nil)
	if err != nil {
		return "", err
	}
	select {
	case <-child.Done:
	case <-ctx.Done():
		child.Stop(0)
		return "", context.Cause(ctx)
	}
	_, rest, _ := strings.Cut(out.String(), "version ")
	words := strings.Fields(rest)
	if child.Err() != nil || len(words) == 0 {
		return "", fmt.Errorf("read the version of %s from %q", program, out.String())
	}
	return words[0], nil
}

// The descriptors that qemu inherits.
const (
	channelFD   = 3
	initramfsFD = 4
)

// arguments are qemu's arguments for a machine with no other devices than these.
func (c Config) arguments(accel Accel) []string {
	args := []string{
		"-name", "venturi-" + escape(c.Name),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-machine", "q35", "-smp", strconv.Itoa(c.CPUs), "-m", strconv.Itoa(c.Memory),
		"-kernel", c.Kernel.Image,
		"-initrd", fmt.Sprintf("/proc/self/fd/%d", initramfsFD),
		"-append", c.commandLine(accel),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-chardev", fmt.Sprintf("socket,id=channel,fd=%d", channelFD),
		"-device", "virtio-serial-pci", "-device", "virtserialport,chardev=channel,name=" + guest.Port,
	}
	if accel == KVM {
		args = append(args, "-accel", "kvm", "-cpu", "host")
	} else {
		args = append(args, "-accel", "tcg,thread=multi", "-cpu", "max")
	}
	if c.Root {
		args = append(args, folder(guest.RootTag, "/", true)...)
		if c.Kernel.Modules != "" {
			args = append(args, folder(guest.ModulesTag, c.Kernel.Modules, true)...)
		}
	}
	for i, path := range c.Writable {
		args = append(args, folder(guest.WritableTag(i), path, false)...)
	}
	for i, n := range c.NICs {
		args = append(args, n.arguments(i)...)
	}
	return args
}

// commandLine is the kernel's command line. The kernel prints only errors, and an oops ends the
// machine: a guest that hung after it would be noticed later.
func (c Config) commandLine(accel Accel) string {
	words := []string{
		"console=ttyS0", "earlyprintk=ttyS0,115200", "quiet", "panic=-1", "oops=panic", "random.trust_cpu=on",
		// These take time that a short-lived machine has no use for.
		"nowatchdog", "audit=0",
	}
	if accel == TCG {
		words = append(words,
			// Timer checks that fail if an emulated CPU stands still for a while.
			"no_timer_check", "tsc=reliable",
			// CPU mitigations protect nothing on an emulated CPU, and are expensive there.
			"mitigations=off")
	}
	return strings.Join(append(append(append(words, "--"), c.Program[1:]...), guest.Role), " ")
}

// folder shares a folder of this host with the guest. New files belong to the owner that the guest
// sets, if this process may change owners.
func folder(tag, path string, readOnly bool) []string {
	share := fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap", tag, escape(path))
	if readOnly {
		share += ",readonly=on"
	}
	return []string{"-fsdev", share, "-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%[1]s", tag)}
}

func (n NIC) arguments(i int) []string {
	net := fmt.Sprintf("tap,id=net%d,ifname=%s,script=no,downscript=no", i, escape(n.Tap))
	card := fmt.Sprintf("%s,netdev=net%d,mac=%s", n.device(), i, n.MAC)
	if n.Queues > 1 {
		net += fmt.Sprintf(",queues=%d", n.Queues)
		// A pair of queues has two interrupts; one more is for the configuration, and one for the
		// control queue.
		card += fmt.Sprintf(",mq=on,vectors=%d", 2*n.Queues+2)
	}
	if n.Hash {
		card += ",rss=on,hash=on"
	}
	if n.Vhost {
		net += ",vhost=on"
	}
	if n.MTU > 0 {
		card += fmt.Sprintf(",host_mtu=%d", n.MTU)
	}
	return []string{"-netdev", net, "-device", card}
}

// device is qemu's name of the card.
func (n NIC) device() string {
	if n.Model == Virtio {
		return "virtio-net-pci"
	}
	return string(n.Model)
}

// escape escapes commas, which separate qemu's options.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }
