package ovs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/testenv"
)

// place gives a place whose daemons end with the test, and the list of them.
func place(t *testing.T) (ovs.Runtime, *[]*netcfg.Child) {
	t.Helper()
	return testenv.OVSRuntime(t, ovs.Needs()...)
}

func start(t *testing.T, p ovs.Runtime) *ovs.Switch {
	t.Helper()
	s, err := ovs.Start(t.Context(), p)
	testenv.Must(t, err)
	t.Cleanup(s.Close)
	return s
}

func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error is %v, want one that says %q", err, says)
	}
}

func TestSwitch(t *testing.T) {
	p, _ := place(t)
	s := start(t, p)
	if !strings.Contains(s.Version, ".") {
		t.Errorf("version is %q", s.Version)
	}
	testenv.Must(t, s.Configure(t.Context(), map[string]string{"vlan-limit": "2"}))
	testenv.Must(t, s.AddBridges(t.Context(),
		ovs.Bridge{Name: "br-phy", Datapath: "netdev", MAC: []byte{2, 0, 0, 0, 0, 7}},
		ovs.Bridge{Name: "br-int", Datapath: "netdev", Ports: []ovs.Port{
			{Name: "tun", Type: "vxlan", Number: 1, Options: map[string]string{"remote_ip": "flow", "key": "77"}},
			{Name: "pod", Type: "internal", Number: 2, MAC: []byte{2, 0, 0, 0, 0, 8}, MTU: 1450},
		}}))
	testenv.Must(t, s.AddPorts(t.Context(), "br-int", ovs.Port{Name: "later", Type: "internal", Number: 9}))
	testenv.Must(t, s.AddFlows(t.Context(), "br-int",
		"in_port=1,tun_dst=10.222.0.1,actions=output:2", "in_port=2,actions=set_field:10.222.0.2->tun_dst,output:1"))

	devices := map[string]*machineLink{}
	for _, d := range links(t, p.In.Path()) {
		devices[d.name] = &d
	}
	for name, want := range map[string]machineLink{
		"br-phy": {mac: "02:00:00:00:00:07"}, "pod": {mac: "02:00:00:00:00:08", mtu: 1450}, "later": {},
	} {
		got := devices[name]
		if got == nil || want.mac != "" && got.mac != want.mac || want.mtu != 0 && got.mtu != want.mtu {
			t.Errorf("device %s is %+v, want %+v", name, got, want)
		}
	}
	shown, err := s.Ask(t.Context(), "dpif/show")
	testenv.Must(t, err)
	for _, want := range []string{"tun 1/", "pod 2/", "later 9/", "key=77"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the switch does not show %q:\n%s", want, shown)
		}
	}
}

type machineLink struct {
	name, mac string
	mtu       int
}

func links(t *testing.T, namespace string) (found []machineLink) {
	testenv.InNetns(t, namespace, func() error {
		list, err := host.Links()
		for _, l := range list {
			a := l.Attrs()
			found = append(found, machineLink{a.Name, a.HardwareAddr.String(), a.MTU})
		}
		return err
	})
	return found
}

// External IDs are set, and set again.
func TestExternalIDs(t *testing.T) {
	p, _ := place(t)
	s := start(t, p)
	testenv.Must(t, s.SetExternalIDs(t.Context(), map[string]string{"system-id": "m1", "ovn-encap-type": "geneve"}))
	testenv.Must(t, s.SetExternalIDs(t.Context(), map[string]string{"system-id": "m2"}))
	text, err := os.ReadFile(filepath.Join(p.Folder, "conf.db"))
	testenv.Must(t, err)
	// The file is a list of changes.
	if !strings.Contains(string(text), `"m1"`) || !strings.Contains(string(text), `"m2"`) {
		t.Errorf("the database has not seen both values:\n%s", text)
	}
}

func TestRefused(t *testing.T) {
	p, _ := place(t)
	s := start(t, p)
	testenv.Must(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: "netdev"}))
	wantError(t, s.AddPorts(t.Context(), "br0", ovs.Port{Name: "nothere"}), "nothere")
	wantError(t, s.AddPorts(t.Context(), "br0", ovs.Port{Name: "tun", Type: "vxlan"}), "tun")
	wantError(t, s.AddPorts(t.Context(), "br0", ovs.Port{Name: "odd", Type: "nosuchtype"}), "odd")
	wantError(t, s.AddPorts(t.Context(), "br1", ovs.Port{Name: "p", Type: "internal"}), "no such bridge")
	wantError(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: "netdev"}), "br0")
	wantError(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br2", Datapath: "nosuchpath"}), "br2")
	wantError(t, s.AddFlows(t.Context(), "br0", "in_port=1,actions=output:2", "in_port=1,actions=nonsense"), "nonsense")
	wantError(t, s.AddFlows(t.Context(), "br1", "actions=drop"), "br1")
	_, err := s.Ask(t.Context(), "nonsense")
	wantError(t, err, "nonsense")
	// After all that it still works.
	testenv.Must(t, s.AddPorts(t.Context(), "br0", ovs.Port{Name: "p", Type: "internal"}))
}

func TestNoPlace(t *testing.T) {
	p, _ := place(t)
	p.Folder = filepath.Join(p.Folder, "nothere")
	_, err := ovs.Start(t.Context(), p)
	wantError(t, err, "nothere")
}

// A database that is no database: the daemon's own words are in the error.
func TestBadDatabase(t *testing.T) {
	p, _ := place(t)
	testenv.Must(t, os.WriteFile(filepath.Join(p.Folder, "schema"), []byte("{}"), 0o600))
	_, err := ovs.StartDatabase(t.Context(), p, "own", filepath.Join(p.Folder, "schema"))
	wantError(t, err, "name")
}

// Whichever daemon dies, who waits for the switch learns of it at once.
func TestDaemonDies(t *testing.T) {
	for i, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		t.Run(name, func(t *testing.T) {
			p, children := place(t)
			s := start(t, p)
			testenv.Must(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: "netdev"}))
			child := (*children)[i]
			// Stopped, it cannot answer; the change is under way when it is killed.
			testenv.Must(t, unix.Kill(child.Pid, unix.SIGSTOP))
			failed := make(chan error, 1)
			begin := time.Now()
			go func() {
				failed <- s.AddPorts(t.Context(), "br0", ovs.Port{Name: "p", Type: "internal"})
			}()
			time.Sleep(50 * time.Millisecond)
			testenv.Must(t, unix.Kill(child.Pid, unix.SIGKILL))
			wantError(t, <-failed, name+" ended (signal: killed)")
			if time.Since(begin) > 20*time.Second {
				t.Error("nobody noticed that it died")
			}
			wantError(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br1", Datapath: "netdev"}), name+" ended")
		})
	}
}
