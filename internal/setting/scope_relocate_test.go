package setting_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A card that moved to a namespace where another device has its number has a new one there:
// by that it is read and written, and the other device is left alone.
func TestMovedToWhereItsNumberIsTaken(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	card, err := setting.DeviceScope(netns, "veth0")
	testenv.Must(t, err)
	other, err := setting.DeviceScope(netns, "veth1") // has the number that was recorded of the card
	testenv.Must(t, err)
	settings := setting.NewSettings(setting.Backends("")...)
	for _, scope := range []setting.Scope{card, other} { // each has NAPIs by that
		testenv.Must(t, settings.Write(setting.Setting{Backend: "feature", Scope: scope, Key: "rx-gro"}, setting.Text("on")))
	}
	read := func(scope setting.Scope, s setting.Setting) setting.Value {
		t.Helper()
		s.Scope = scope
		v, err := settings.Read(s)
		testenv.Must(t, err)
		return v
	}
	root, err := setting.ReadQdisc(read(card, setting.QdiscSetting(card)))
	testenv.Must(t, err)
	pfifo, err := root.Replacement("pfifo")
	testenv.Must(t, err)
	writes := []setting.Write{
		{Setting: setting.Setting{Backend: "link", Scope: other, Key: "txqueuelen"}, Value: setting.Text("777")},
		{Setting: setting.QdiscSetting(other), Value: pfifo},
	}
	napis, err := setting.NAPISettings(other, "gro_flush_timeout")
	testenv.Must(t, err)
	for _, s := range napis { // none on a kernel without settings of single NAPIs
		writes = append(writes, setting.Write{Setting: s, Value: setting.Text("7000")})
	}
	moved := settings.Moved(other, card.Device.Name, card.Device.Index)
	for _, w := range writes {
		before, now := read(other, w.Setting), setting.Value{}
		testenv.InNetns(t, netns, func() (err error) {
			if err = moved.Write(w.Setting, w.Value); err == nil {
				now, err = moved.Read(w.Setting)
			}
			return err
		})
		if v := read(card, w.Setting); !settings.Matches(w.Setting, w.Value, v) || !v.Equal(now) {
			t.Errorf("%s %s of the card is %s, and read as %s; want %s", w.Setting.Backend, w.Setting.Key, v, now, w.Value)
		}
		if v := read(other, w.Setting); !v.Equal(before) {
			t.Errorf("%s %s of the other device is %s, want %s", w.Setting.Backend, w.Setting.Key, v, before)
		}
	}
}
