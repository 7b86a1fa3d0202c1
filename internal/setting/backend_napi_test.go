package setting_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The kernel shows no NAPI of a device that is down, and many a driver's has its numbers again
// when it is up: what was set of one stays open until then. A NAPI that a device which is up
// has no more is gone.
func TestNAPIOfDeviceThatIsDown(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	scope, err := setting.DeviceScope(netns, "veth0")
	testenv.Must(t, err)
	settings := setting.NewSettings(setting.Backends("")...)
	gro := setting.Setting{Backend: "feature", Scope: scope, Key: "rx-gro"}
	testenv.Must(t, settings.Write(gro, setting.Text("on")))
	napis, err := setting.NAPISettings(scope, "gro_flush_timeout")
	testenv.Must(t, err)
	if len(napis) == 0 {
		t.Skip("this kernel has no settings of single NAPIs")
	}
	j, tx := openJournal(t, settings)
	e, err := tx.Set("", setting.Write{Setting: napis[0], Value: setting.Text("7000")})
	testenv.Must(t, err)
	setUp := func(set func(netlink.Link) error) {
		testenv.InNetns(t, netns, func() error {
			l, err := netlink.LinkByName("veth0")
			if err != nil {
				return err
			}
			return set(l)
		})
	}
	undo := func() error {
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		testenv.Must(t, err)
		return outcomes[0].Err
	}
	setUp(netlink.LinkSetDown)
	if _, err := settings.Read(napis[0]); err == nil {
		t.Skip("this kernel shows the NAPIs of a device that is down")
	}
	if err := undo(); err == nil || !e.State.Open() {
		t.Fatalf("undone while it is down: it is %s, %v", e.State, err)
	}
	setUp(netlink.LinkSetUp)
	testenv.Must(t, settings.Write(gro, setting.Text("off"))) // with which veth has none
	if err := undo(); err != nil || e.State != journal.Vanished {
		t.Errorf("undone when it is up, without NAPIs: it is %s, %v", e.State, err)
	}
}
