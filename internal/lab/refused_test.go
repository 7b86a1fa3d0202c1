package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// refused raises a lab that cannot be, and looks that the error tells a user
// what, why and what to do, and that nothing of the lab is there.
func refused(t *testing.T, o lab.Options, code int, why string) {
	t.Helper()
	o.Name = testenv.LabName()
	_, err := lab.Up(t.Context(), o)
	checkRefusal(t, err, code, why)
	if hasTraces(t, o.Name) {
		t.Error("something of the lab is there")
	}
}

func checkRefusal(t *testing.T, err error, code int, why string) {
	t.Helper()
	var told *verr.Error
	if !errors.As(err, &told) {
		t.Fatalf("got %v, want an error for a user", err)
	}
	if told.Code != code || !strings.Contains(told.Reason, why) || told.Summary == "" || told.Hint == "" {
		t.Errorf("got %q with code %d, want %d and a reason with %q", told, told.Code, code, why)
	}
}

// What a path cannot be is refused before anything is made.
func TestPathRefused(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		paths, wire string
		hosts       int
		why         string
	}{
		{paths: "warp", why: "no driver of that name"},
		{paths: "vxlan:vni=16777216", why: "not a number from 1 to 16777215"},
		{paths: "vxlan:vni=16777212,tunnels=5", why: "the maximum of 16777215"},
		{paths: "vxlan:mtu=1451", why: "leaves 1450 bytes"},
		{paths: "vxlan:mtu=1000", wire: "mtu=576", why: "leaves 526 bytes"},
		{paths: "routed:mtu=1501", why: "leaves 1500 bytes"},
		{paths: "host:mtu=1400", why: "no option"},
		{paths: "vxlan:vni=7 vxlan:vni=7", why: "VNI 7 on UDP port 8472"},
		{paths: "vxlan:vni=16777200,tunnels=16,port=4789 routed vxlan-dev:vni=16777215", why: "VNI 16777215 on UDP port 4789"},
		{paths: "bgp:reflector=2", why: "2 machines"},
		{paths: "bgp:asn=4294967296", why: "not a number from 1 to 4294967295"},
		{paths: "ovs-vxlan:datapath=netdev,vni=16777216", why: "not a number from 1 to 16777215"},
		{paths: "ovs-vxlan:datapath=dpdk", why: "not one of"},
		{paths: "ovs-geneve:datapath=netdev,mtu=1451", why: "leaves 1450 bytes"},
		{paths: "ovs-vlan:datapath=netdev,vlan=4095", why: "not a number from 1 to 4094"},
		{paths: "ovs-vlan:datapath=netdev,vlan=4094,ids=2", why: "the maximum of 4094"},
		{paths: "ovs-qinq:datapath=netdev,inner=0", why: "not a number from 1 to 4094"},
		{paths: "ovs-qinq:datapath=netdev,mtu=1493", why: "leaves 1492 bytes"},
		{paths: "host", hosts: 1, why: "2 to 250"},
		{paths: "host", hosts: 251, why: "2 to 250"},
		{paths: "host routed host routed host", hosts: 250, why: "1024 blocks"},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintf("%s %s %d", c.paths, c.wire, c.hosts)), func(t *testing.T) {
			wire, err := lab.ParseWire(c.wire)
			testenv.Must(t, err)
			refused(t, lab.Options{Paths: strings.Fields(c.paths), Wire: wire, Hosts: c.hosts}, verr.Usage, c.why)
		})
	}
	for _, d := range path.Table {
		t.Run(d.Name+" with an unknown option", func(t *testing.T) {
			refused(t, lab.Options{Paths: []string{"host", d.Name + ":warp=9"}}, verr.Usage, `no option "warp"`)
		})
	}
}

// What the kernel lacks is said, with a way out. A kernel that has it all
// refuses nothing.
func TestKernelLacks(t *testing.T) {
	testenv.Root(t)
	if answer, _ := feature.OVSDatapath.Ask(); answer == feature.Yes {
		t.Skip("this kernel has a Open vSwitch kernel datapath")
	}
	for _, name := range path.Names() {
		if d, err := path.Lookup(name); err != nil || !hasOption(d, "datapath") {
			continue
		}
		_, err := lab.Up(t.Context(), lab.Options{Name: testenv.LabName(), Paths: []string{name + ":datapath=system"}})
		checkRefusal(t, err, verr.Missing, "Open vSwitch kernel datapath")
		if err != nil && !strings.Contains(err.Error(), "datapath=netdev") {
			t.Errorf("%s: %v, want it to tell of datapath=netdev", name, err)
		}
	}
}

func hasOption(d *path.Driver, name string) bool {
	return slices.ContainsFunc(d.Options, func(o path.Option) bool { return o.Name == name })
}

// Every path whose programs are not installed is refused, with the name of one
// and of its package.
func TestProgramMissing(t *testing.T) {
	testenv.Root(t)
	for _, d := range path.Table {
		spec := d.Name
		if hasOption(d, "datapath") {
			spec += ":datapath=netdev"
		}
		programs := programsOf(d, spec)
		if len(programs) == 0 {
			continue
		}
		t.Run(d.Name, func(t *testing.T) {
			name := testenv.LabName()
			told := raiseBare(t, name, spec)
			if hasTraces(t, name) {
				t.Error("something of the lab is there")
			}
			i := slices.IndexFunc(programs, func(p feature.Program) bool { return strings.Contains(told.Reason, "no program "+p.Name) })
			if told.Code != verr.Missing || i < 0 || told.Summary == "" || !strings.Contains(told.Hint, "apt-get install "+programs[i].Package) {
				t.Errorf("got %+v, want code %d, one of %v and how to install it", told, verr.Missing, programs)
			}
		})
	}
}

// programsOf lists those that a path needs. A spec that says too little, as one
// of attach would, needs none.
func programsOf(d *path.Driver, spec string) (list []feature.Program) {
	_, options, err := path.ParseSpec(spec)
	if err != nil || d.Needs == nil {
		return nil
	}
	for _, need := range d.Needs(options) {
		if p, ok := need.(feature.Program); ok {
			list = append(list, p)
		}
	}
	return list
}

// raiseBare raises a lab on a machine without programs, and gives the error.
func raiseBare(t *testing.T, name, spec string) (told verr.Error) {
	t.Helper()
	return raiseElsewhere(t, append(testenv.RoleCommand(t, "bare"), name, spec))
}

// raiseElsewhere raises a lab in a process that writes the error down, and gives that.
func raiseElsewhere(t *testing.T, command []string) (told verr.Error) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "PATH=")
	// Mounts of its own, in which it hides folders.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	testenv.Must(t, err)
	testenv.Must(t, json.Unmarshal(out, &told))
	return told
}

// bare raises the lab args[1] with the path args[2] where there are no
// programs, and writes down the error.
func bare(args []string) int {
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if err := unix.Mount("tmpfs", folder, "tmpfs", 0, ""); err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(os.Stderr, "hide %s: %v\n", folder, err)
			return 1
		}
	}
	return writeRefusal(args[1], args[2])
}

// writeRefusal raises a lab with a path, and writes down the error.
func writeRefusal(name, spec string) int {
	_, err := lab.Up(context.Background(), lab.Options{Name: name, Paths: []string{spec}})
	var told *verr.Error
	if !errors.As(err, &told) {
		fmt.Fprintf(os.Stderr, "got %v, want an error for a user\n", err)
		return 1
	}
	told.Err = nil // what is wrapped cannot be read back
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Root without the rights of root, as in a container, is told so.
func TestRightsMissing(t *testing.T) {
	testenv.Root(t)
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		t.Skip("there is no setpriv (package util-linux)")
	}
	for lack, why := range map[string]string{
		"-sys_admin": "operation not permitted", "-net_admin": "operation not permitted", "proc": "read-only file system",
	} {
		t.Run(lack, func(t *testing.T) {
			name := testenv.LabName()
			command := append(testenv.RoleCommand(t, "contained"), name, lack)
			if lack != "proc" {
				command = append([]string{setpriv, "--bounding-set", lack}, command...)
			}
			told := raiseElsewhere(t, command)
			said := strings.Contains(told.Reason, why) && strings.Contains(told.Hint, "--privileged")
			if told.Code != verr.Permission || !said {
				t.Errorf("got %+v, want code %d, %q and a way out", told, verr.Permission, why)
			}
			if hasTraces(t, name) {
				t.Error("something of the lab is there")
			}
		})
	}
}

// contained raises the lab args[1]; if args[2] is proc, where /proc/sys is read-only.
func contained(args []string) int {
	if args[2] == "proc" {
		err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND, "")
		if err == nil {
			err = unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "make /proc/sys read-only: %v\n", err)
			return 1
		}
	}
	return writeRefusal(args[1], "host")
}
