package knob_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// wholeDevice reads every value of a device, and which of its offloads are in
// effect.
func (b bench) wholeDevice(on knob.Target) string {
	b.t.Helper()
	scope, err := on.Scope()
	if err != nil {
		b.t.Fatal(err)
	}
	settings, err := setting.DeviceSettings(scope)
	if err != nil {
		b.t.Fatal(err)
	}
	text := ""
	for _, s := range settings {
		v, err := b.m.Settings.Read(s)
		if err != nil {
			b.t.Fatal(err)
		}
		text += fmt.Sprintf("%s %s %q\n", s.Backend, s.Key, v)
	}
	features, err := setting.DeviceFeatures(scope)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(features)) {
		text += fmt.Sprintf("%s in effect: %v\n", name, features[name].Active)
	}
	return text
}

// Knobs of what ethtool sets show what was set, and an undo brings the whole
// device back.
func TestDeviceKnobs(t *testing.T) {
	testenv.Root(t)
	b := benchOn(t, "")
	netns := testenv.Devices(t)
	for _, c := range []struct{ device, knob, value, shows string }{
		{"veth0", "nic.seg", "off", "off"},
		{"veth0", "nic.seg", "tso=off", "sg=on,tso=off,gso=on"},
		{"veth0", "nic.seg", "sg=off", "sg=off,tso=on,gso=on"}, // which takes the others along
		{"veth0", "nic.seg", "tx-tcp6-segmentation=off", "sg=on,tx-tcp-segmentation=on,tx-tcp6-segmentation=off,tx-tcp-ecn-segmentation=on,gso=on"},
		{"veth0", "nic.csum", "tx=off", "tx=off,sctp=on,rx=on"},
		{"veth0", "nic.gro", "on", "on"},
		{"veth0", "virt.veth_gro", "on", "on"},
		{"veth0", "nic.tnl_seg", "csum=off", "seg=on,csum=off"},
		{"veth0", "nic.udp_gro_fwd", "on", "on"},
		{"veth0", "nic.udp_gro_fwd", "list=on", "forward=off,list=on"},
		{"veth0", "nic.channels", "rx=1", "rx=1,tx=4"},
		{"veth0", "nic.channels", "tx=2,rx=max", "rx=4,tx=2"},
		{"vxlan0", "virt.tx_csum", "off", "off"},
		{"vxlan0", "nic.gro", "off", "off"},
		{"br0", "nic.seg", "off", "off"},
	} {
		t.Run(c.device+" "+c.knob+" "+c.value, func(t *testing.T) {
			b := b
			b.t = t
			on := knob.Target{Netns: netns, Device: c.device}
			before := b.wholeDevice(on)
			if err := b.set(c.knob, on, c.value); err != nil {
				t.Fatal(err)
			}
			if got := b.get(c.knob, on); got != c.shows {
				t.Errorf("it shows %s, want %s", got, c.shows)
			}
			if b.wholeDevice(on) == before {
				t.Error("nothing was changed")
			}
			b.undo()
			if after := b.wholeDevice(on); after != before {
				t.Errorf("after the undo it is\n%s, want\n%s", after, before)
			}
		})
	}
}

// What a device does not have, or what makes no sense, is refused before
// anything is written.
func TestDeviceKnobsRefuse(t *testing.T) {
	testenv.Root(t)
	b := benchOn(t, "")
	netns := testenv.Devices(t)
	for _, c := range []struct {
		device, knob string
		code         int
		values       []string
	}{
		{"veth0", "nic.ring", verr.Missing, []string{"max"}},
		{"veth0", "nic.coalesce", verr.Missing, []string{"rx-usecs=0"}},
		{"veth0", "nic.pause", verr.Missing, []string{"rx=on"}},
		{"veth0", "nic.rss_udp", verr.Missing, []string{"sdfn"}},
		{"veth0", "nic.rss_table", verr.Missing, []string{"default"}},
		{"veth0", "nic.arfs", verr.Missing, []string{"on"}},
		{"veth0", "nic.privflags", verr.Missing, []string{"a=on"}},
		{"veth0", "nic.lro", verr.Missing, []string{"on", "off"}},
		{"veth0", "virt.tx_csum", verr.Missing, []string{"off"}},
		{"vxlan0", "virt.veth_gro", verr.Missing, []string{"on"}},
		{"veth0", "nic.seg", verr.Missing, []string{"ufo=on", "tx-checksum-sctp=off"}},
		{"veth0", "nic.seg", verr.Usage, []string{"", "maybe", "tso", "tso=1", "tso=on,tso=off"}},
		{"veth0", "nic.channels", verr.Usage, []string{"", "rx=5", "rx=-1", "rx=many", "4"}},
		{"veth0", "nic.channels", verr.Missing, []string{"combined=1"}},
		{"no-such", "nic.gro", verr.Usage, []string{"on"}},
		{"", "nic.gro", verr.Usage, []string{"on"}},
	} {
		b.refused(c.knob, knob.Target{Netns: netns, Device: c.device}, c.code, c.values...)
	}
}

// An offload that is wanted, and that another one keeps out of effect, is told of.
func TestOffloadWithoutEffect(t *testing.T) {
	testenv.Root(t)
	b := benchOn(t, "")
	on := knob.Target{Netns: testenv.Devices(t), Device: "vxlan0"}
	if err := b.set("nic.csum", on, "tx=off"); err != nil {
		t.Fatal(err)
	}
	r, err := entry(t, "nic.seg").Get(b.m, on)
	if err != nil || r.Value != "on" || r.Effective == r.Value || r.Note == "" {
		t.Errorf("%+v, %v: want it on, and not in effect", r, err)
	}
	if err := b.set("nic.seg", on, "off"); err != nil {
		t.Error(err)
	}
	if err := b.set("nic.seg", on, "on"); verr.Code(err) != verr.Failed {
		t.Errorf("segmentation without checksums was set: %v", err)
	}
	if got := b.get("nic.seg", on); got != "off" {
		t.Errorf("after that it is %s", got)
	}
}

// What is worth a trial is not what there is, and can be set.
func TestDeviceRanges(t *testing.T) {
	testenv.Root(t)
	b := benchOn(t, "")
	netns := testenv.Devices(t)
	for _, c := range []struct {
		device, knob string
		want         []string
	}{
		{"veth0", "nic.seg", []string{"off"}},
		{"veth0", "nic.udp_gro_fwd", []string{"on"}},
		{"veth0", "nic.channels", []string{"rx=1,tx=1", "rx=2,tx=2"}},
		{"vxlan0", "virt.tx_csum", []string{"off"}},
	} {
		on := knob.Target{Netns: netns, Device: c.device}
		got, err := entry(t, c.knob).Knob.(knob.Ranger).Range(b.m, on)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: worth a trial are %q, %v; want %q", c.knob, got, err, c.want)
		}
	}
}
