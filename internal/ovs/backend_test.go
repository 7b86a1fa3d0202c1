package ovs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// socket is that of the database of the switch in a place.
func socket(p ovs.Runtime) string { return filepath.Join(p.Folder, "conf.sock") }

func TestStore(t *testing.T) {
	p, children := place(t)
	s := start(t, p)
	settings := setting.NewSettings(ovs.Backend())
	holds := func(s setting.Setting, want setting.Value) {
		t.Helper()
		if v, err := settings.Read(s); err != nil || !v.Equal(want) {
			t.Fatalf("%s holds %q, %v; want %q", s, v, err, want)
		}
	}
	testenv.Must(t, s.Configure(t.Context(), map[string]string{"vlan-limit": "2"}))
	limit, idle := ovs.OtherConfig(socket(p), "flow-limit"), ovs.OtherConfig("unix:"+socket(p), "max-idle")
	csum := ovs.ExternalID(socket(p), "ovn-encap-csum")
	other := ovs.OtherConfig(socket(p), "vlan-limit")
	for _, s := range []setting.Setting{limit, idle, csum} {
		holds(s, setting.Value{})
		for _, v := range []setting.Value{setting.Text("1000"), setting.Text("a \"b\""), setting.Text(""), {}, {}, setting.Text("7")} {
			testenv.Must(t, settings.Write(s, v))
			holds(s, v)
		}
		testenv.Must(t, settings.Write(s, setting.Value{}))
	}
	holds(other, setting.Text("2")) // nobody else's key is touched

	// What the daemon does not follow stands all the same.
	testenv.Must(t, unix.Kill((*children)[1].Pid, unix.SIGSTOP))
	testenv.Must(t, settings.Write(limit, setting.Text("5")))
	testenv.Must(t, unix.Kill((*children)[1].Pid, unix.SIGCONT))
	holds(limit, setting.Text("5"))

	// A value that somebody else has changed since it was read is not replaced.
	if err := settings.Replace(limit, setting.Text("6"), setting.Text("7")); !errors.Is(err, setting.ErrChanged) {
		t.Errorf("replace what is not there: %v", err)
	}
	testenv.Must(t, settings.Replace(limit, setting.Text("5"), setting.Text("7")))
	holds(limit, setting.Text("7"))
	bridges := setting.Setting{Backend: "ovsdb", Key: socket(p) + " Open_vSwitch/Open_vSwitch/./bridges/"}
	for _, name := range []string{"br0", "br1"} {
		before, err := settings.Read(bridges)
		testenv.Must(t, err)
		testenv.Must(t, s.AddBridges(t.Context(), ovs.Bridge{Name: name, Datapath: ovs.Daemon}))
		both, err := settings.Read(bridges)
		testenv.Must(t, err)
		if err := settings.Replace(bridges, before, setting.Text("")); !errors.Is(err, setting.ErrChanged) {
			t.Errorf("replace bridges %q by none: %v", before, err)
		}
		holds(bridges, both)
		testenv.Must(t, settings.Replace(bridges, both, both))
	}

	for _, key := range []string{"", "flow-limit", socket(p) + " Open_vSwitch/Open_vSwitch/./other_config"} {
		if _, err := settings.Read(setting.Setting{Backend: "ovsdb", Key: key}); err == nil {
			t.Errorf("read %q", key)
		}
	}
	_, err := settings.Read(setting.Setting{Backend: "ovsdb", Key: socket(p) + " Open_vSwitch/Bridge/8f1a6a1c-0000-4000-8000-000000000000/other_config/x"})
	wantError(t, err, host.ErrGone.Error())
	_, err = settings.Read(ovs.OtherConfig(p.Folder+"/nothere", "x"))
	wantError(t, err, ovs.ErrNoDatabase.Error())
	if os.IsNotExist(err) {
		t.Error("a database that is not there is taken for a value that is not there")
	}
}

func TestRunning(t *testing.T) {
	p, _ := place(t)
	s := start(t, p)
	if _, _, err := ovs.Threads(p.Folder + "/nothere/db.sock"); err == nil {
		t.Error("counted threads of no daemon")
	}
	testenv.Must(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: ovs.Daemon, Ports: []ovs.Port{
		{Name: "tun", Type: "vxlan", Number: 1, Options: map[string]string{"remote_ip": "flow", "csum": "true"}},
		{Name: "pod", Type: "internal", Number: 2},
	}}))
	r, err := ovs.LookAt(socket(p))
	testenv.Must(t, err)
	if len(r.Datapaths) != 1 || r.Datapaths[0] != ovs.Daemon {
		t.Errorf("datapaths are %q", r.Datapaths)
	}
	if !strings.Contains(strings.Join(r.Types, " "), "vxlan") {
		t.Errorf("types of ports are %q", r.Types)
	}
	tunnels, err := ovs.Tunnels(socket(p))
	testenv.Must(t, err)
	if len(tunnels) != 1 || tunnels["tun"] != "true" {
		t.Errorf("tunnels are %q", tunnels)
	}
	if _, revalidators, err := ovs.Threads(socket(p)); err != nil || revalidators < 1 {
		t.Errorf("%d revalidators, %v", revalidators, err)
	}
	if mode, err := ovs.DispatchModes(socket(p)); err != nil {
		t.Errorf("%q, %v", mode, err)
	}
	if _, _, err := ovs.Balancers(socket(p)); err == nil {
		t.Error("read the database of a switch as the northbound one")
	}
}
