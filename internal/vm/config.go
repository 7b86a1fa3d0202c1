package vm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
)

// Default memory, MiB. Few guests touch most of it, and qemu allocates it only when the guest does.
const (
	labMemory   = 4096
	agentMemory = 1024
)

// Most CPUs that a machine has by default. It does not boot with the hundreds of a large host, and each
// emulated CPU slows the others down.
const (
	mostCPUs         = 64
	mostEmulatedCPUs = 8
)

// Default limits. An emulated machine is ten times as slow, and on a busy host it stands still for
// longer than one on KVM.
const (
	startLimit           = 3 * time.Minute
	silenceLimit         = 45 * time.Second
	emulatedStartLimit   = 10 * time.Minute
	emulatedSilenceLimit = 4 * time.Minute
)

// LongestStart is the start limit of a machine without a StartLimit.
const LongestStart = emulatedStartLimit

// ReadConfig reads a Config from a JSON file.
func ReadConfig(file string) (Config, error) {
	var c Config
	text, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("read config: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("decode %s: %w", file, err)
	}
	return c, nil
}

// Write writes a Config as JSON to a file that only this user may read.
func (c Config) Write(file string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode config: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

// withDefaults fills in empty fields.
func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		name, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("read hostname: %w", err)
		}
		c.Name = name
	}
	if c.Memory == 0 {
		c.Memory = agentMemory
		if c.Root {
			c.Memory = labMemory
		}
		var have unix.Sysinfo_t
		if err := unix.Sysinfo(&have); err != nil {
			return c, fmt.Errorf("read the size of the memory: %w", err)
		}
		c.Memory = min(c.Memory, int(have.Totalram*uint64(have.Unit)>>20)/2)
	}
	return c, nil
}

// withLimits fills in what depends on the kind of acceleration: empty limits, and the number of CPUs of
// a host that has so many.
func (c Config) withLimits(accel Accel, cpus int) Config {
	start, silence, most := startLimit, silenceLimit, mostCPUs
	if accel == TCG {
		start, silence, most = emulatedStartLimit, emulatedSilenceLimit, mostEmulatedCPUs
	}
	c.CPUs = cmp.Or(c.CPUs, min(cpus, most))
	c.StartLimit, c.SilenceLimit = cmp.Or(c.StartLimit, start), cmp.Or(c.SilenceLimit, silence)
	return c
}

// check refuses invalid configurations before anything is started.
func (c Config) check() error {
	if len(c.Program) == 0 {
		return errors.New("the config names no program to run in the guest")
	}
	if c.CPUs < 0 || c.Memory < 0 || c.StartLimit < 0 || c.SilenceLimit < 0 {
		return errors.New("its CPUs, memory and times cannot be negative")
	}
	if !slices.Contains([]Accel{Auto, KVM, TCG}, c.Accel) {
		return fmt.Errorf("acceleration %q is neither %q nor %q", c.Accel, KVM, TCG)
	}
	if len(c.Writable) > 0 && !c.Root {
		return errors.New("writable folders take a guest with this host's file system (Root)")
	}
	for _, folder := range c.Writable {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() || !filepath.IsAbs(folder) {
			return fmt.Errorf("%s is not the absolute path of a folder", folder)
		}
	}
	for _, w := range c.Program[1:] {
		if strings.ContainsAny(w, " \"\n") {
			return fmt.Errorf("the kernel's command line cannot carry the argument %q", w)
		}
	}
	for _, n := range c.NICs {
		if _, err := net.ParseMAC(n.MAC); err != nil {
			return fmt.Errorf("network card on %s: %w", n.Tap, err)
		}
		if n.Tap == "" || n.MTU < 0 || n.Queues < 0 {
			return fmt.Errorf("network card %s: it needs a tap, and its numbers cannot be negative", n.MAC)
		}
		if !slices.Contains([]Model{Virtio, E1000E, VMXNet3}, n.Model) {
			return fmt.Errorf("network card %s: there is no model %q", n.MAC, n.Model)
		}
		if n.Model != Virtio && (n.MTU > 0 || n.Queues > 1 || n.Vhost || n.Hash) {
			return fmt.Errorf("network card %s: model %s has one queue and no options", n.MAC, n.Model)
		}
		for _, o := range n.Neighbours {
			if _, err := net.ParseMAC(o.MAC); err != nil {
				return fmt.Errorf("neighbour %s: %w", o.Addr, err)
			}
		}
	}
	return nil
}

// checkTaps checks that the taps exist. qemu would create a missing one, and the guest would be
// connected to nothing.
func (c Config) checkTaps() error {
	if len(c.NICs) == 0 {
		return nil
	}
	in := ""
	if c.In != nil {
		in = c.In.Path()
	}
	return host.Do(in, func() error {
		links, err := host.Links()
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, l := range links {
			there[l.Attrs().Name] = true
		}
		for _, n := range c.NICs {
			if !there[n.Tap] {
				return fmt.Errorf("the tap device %s of its card does not exist", n.Tap)
			}
		}
		return nil
	})
}

// modules are the kernel modules that the guest loads at boot.
func (c Config) modules() ([]kernel.Module, error) {
	names := []string{"virtio_pci", "virtio_console"}
	if c.Root {
		names = append(names, "9pnet_virtio", "9p", "overlay")
	}
	for _, n := range c.NICs {
		names = append(names, n.module())
	}
	return c.Kernel.Load(append(names, c.Modules...)...)
}

// module is the card's driver.
func (n NIC) module() string {
	if n.Model == Virtio {
		return "virtio_net"
	}
	return string(n.Model)
}

// forGuest returns the configuration of the guest's first process.
func (c Config) forGuest() guest.Config {
	g := guest.Config{
		Hostname: c.Name, Release: c.Kernel.Release, Root: c.Root, HasKmod: c.Root && c.Kernel.Modules != "",
		Writable: c.Writable, Agent: c.Agent, Settings: c.Settings,
	}
	for _, n := range c.NICs {
		g.NICs = append(g.NICs, guest.NIC{MAC: n.MAC, Addr: n.Addr, Neighbours: n.Neighbours})
	}
	return g
}

// describe names the machine in errors.
func (c Config) describe() string {
	if c.Kernel.Release == "" {
		return "the virtual machine"
	}
	return "the virtual machine with kernel " + c.Kernel.Release
}

// cannotStart returns the error of a machine that did not start.
func (c Config) cannotStart(code int, err error, do string) error {
	return verr.Wrap(code, "cannot start "+c.describe(), err, do)
}
