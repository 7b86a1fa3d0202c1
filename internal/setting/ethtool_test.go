package setting_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// deviceValues reads every value of a device, and what of its features is in effect.
func deviceValues(t *testing.T, settings *setting.Settings, scope setting.Scope) map[string]string {
	t.Helper()
	list, err := setting.DeviceSettings(scope)
	testenv.Must(t, err)
	all := map[string]string{}
	for _, s := range list {
		v, err := settings.Read(s)
		testenv.Must(t, err)
		all[s.String()] = v.String()
	}
	features, err := setting.DeviceFeatures(scope)
	testenv.Must(t, err)
	for name, f := range features {
		all["active "+name] = fmt.Sprint(f.Active)
	}
	return all
}

// differ lists what is different in two snapshots.
func differ(a, b map[string]string) (list []string) {
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if a[name] != b[name] {
			list = append(list, fmt.Sprintf("%s: %q, then %q", name, a[name], b[name]))
		}
	}
	return list
}

func openJournal(t *testing.T, settings *setting.Settings) (*journal.Journal, *journal.Tx) {
	t.Helper()
	j, err := journal.Open(journal.Options{Folder: t.TempDir(), Settings: settings, User: "a test"})
	testenv.Must(t, err)
	t.Cleanup(func() { j.Close() })
	tx, err := j.Begin(0)
	testenv.Must(t, err)
	return j, tx
}

func undoAll(t *testing.T, j *journal.Journal) {
	t.Helper()
	outcomes, err := j.Undo(nil, journal.UndoOptions{})
	testenv.Must(t, err)
	for _, o := range outcomes {
		if o.Err != nil {
			t.Errorf("undo %s: %v", o.Entry.Setting, o.Err)
		}
	}
}

// What is written is in effect, and undone brings the whole device back: what
// was not written too.
func TestDeviceBackends(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	settings := setting.NewSettings(setting.Backends("")...)
	for _, c := range []struct {
		device, backend, key string
		values               []string
		moves                []string // what moves along
	}{
		{"veth0", "feature", "rx-gro", []string{"on", "off"}, nil},
		{"veth0", "feature", "tx-scatter-gather", []string{"off"}, []string{"tx-tcp-segmentation", "tx-generic-segmentation"}},
		{"veth0", "feature", "tx-udp_tnl-segmentation", []string{"off"}, nil},
		{"veth0", "feature", "rx-udp-gro-forwarding", []string{"on"}, nil},
		{"vxlan0", "feature", "tx-checksum-ip-generic", []string{"off", "on", "off"}, []string{"tx-tcp-segmentation"}},
		{"br0", "feature", "tx-tcp-segmentation", []string{"off"}, nil},
		{"veth0", "channel", "", []string{"rx=1,tx=1", "rx=3,tx=2", "rx=2,tx=4"}, nil},
	} {
		t.Run(c.device+" "+c.backend+" "+c.key, func(t *testing.T) {
			scope, err := setting.DeviceScope(netns, c.device)
			testenv.Must(t, err)
			s := setting.Setting{Backend: c.backend, Scope: scope, Key: c.key}
			before := deviceValues(t, settings, scope)
			j, tx := openJournal(t, settings)
			for _, value := range c.values {
				_, err := tx.Set("", setting.Write{Setting: s, Value: setting.Text(value)})
				testenv.Must(t, err)
				now, err := settings.Read(s)
				testenv.Must(t, err)
				if now.String() != value {
					t.Errorf("it shows %s, want %s", now, value)
				}
				after := deviceValues(t, settings, scope)
				if name := "active " + c.key; c.backend == "feature" && after[name] != fmt.Sprint(value == "on") {
					t.Errorf("%s is in effect: %s", value, after[name])
				}
				for _, other := range c.moves {
					if value == "off" && after["active "+other] != "false" {
						t.Errorf("%s is off, and %s in effect", c.key, other)
					}
				}
			}
			undoAll(t, j)
			for _, d := range differ(before, deviceValues(t, settings, scope)) {
				t.Error(d)
			}
		})
	}
}

// A device with fewer channels forgets what was set for the queues that it lost.
func TestChannelsForgetQueues(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	settings := setting.NewSettings(setting.Backends("")...)
	scope, err := setting.DeviceScope(netns, "veth0")
	testenv.Must(t, err)
	file := func(key string) setting.Setting { return setting.Setting{Backend: "net", Scope: scope, Key: key} }
	channel := setting.Setting{Backend: "channel", Scope: scope}
	testenv.Must(t, settings.Write(channel, setting.Text("rx=4,tx=4")))
	for key, value := range map[string]string{
		"queues/rx-0/rps_cpus": "1", "queues/rx-3/rps_cpus": "3", "queues/rx-3/rps_flow_cnt": "256",
		"queues/tx-0/xps_cpus": "1", "queues/tx-3/xps_cpus": "2",
	} {
		testenv.Must(t, settings.Write(file(key), setting.Text(value)))
	}
	before := deviceValues(t, settings, scope)
	j, tx := openJournal(t, settings)
	_, err = tx.Set("", setting.Write{Setting: channel, Value: setting.Text("rx=1,tx=1")})
	testenv.Must(t, err)
	if _, err := settings.Read(file("queues/rx-3/rps_cpus")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the fourth queue is still there: %v", err)
	}
	undoAll(t, j)
	for _, d := range differ(before, deviceValues(t, settings, scope)) {
		t.Error(d)
	}
}

func TestDeviceBackendsRefuse(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	settings := setting.NewSettings(setting.Backends("")...)
	for _, c := range []struct {
		device, backend, key, value string
		read, write                 error // nil: it succeeds; errAny: any
	}{
		{"veth0", "feature", "rx-vlan-filter", "on", errors.ErrUnsupported, nil}, // fixed: the kernel ignores it
		{"veth0", "feature", "no-such", "on", os.ErrNotExist, errAny},
		{"veth0", "feature", "rx-gro", "maybe", nil, errAny},
		{"br0", "ring", "", "rx=1", errors.ErrUnsupported, errAny},
		{"br0", "coalesce", "", "rx-usecs=1", errors.ErrUnsupported, errAny},
		{"br0", "pause", "", "rx=on", errors.ErrUnsupported, errAny},
		{"br0", "rss", "", "table=default", errors.ErrUnsupported, errAny},
		{"br0", "flowhash", "udp4", "sdfn", errors.ErrUnsupported, errAny},
		{"br0", "flowhash", "udp9", "sdfn", os.ErrNotExist, errAny},
		{"br0", "privflag", "x", "on", errors.ErrUnsupported, errAny},
		{"veth0", "channel", "", "rx=99", nil, errAny},
		{"veth0", "channel", "", "rx=one", nil, errAny},
		{"veth0", "channel", "", "ry=1", nil, errAny},
	} {
		t.Run(c.device+" "+c.backend+" "+c.key+" "+c.value, func(t *testing.T) {
			scope, err := setting.DeviceScope(netns, c.device)
			testenv.Must(t, err)
			s := setting.Setting{Backend: c.backend, Scope: scope, Key: c.key}
			if _, err := settings.Read(s); !errors.Is(err, c.read) {
				t.Errorf("reading it gives %v, want %v", err, c.read)
			}
			before := deviceValues(t, settings, scope)
			if err := settings.Write(s, setting.Text(c.value)); (err == nil) != (c.write == nil) {
				t.Errorf("writing it gives %v", err)
			}
			for _, d := range differ(before, deviceValues(t, settings, scope)) {
				t.Error(d)
			}
		})
	}
}

var errAny = errors.New("any error")

// A device that went away says so, whichever way it is asked.
func TestDeviceBackendsGone(t *testing.T) {
	testenv.Root(t)
	netns := testenv.Devices(t)
	settings := setting.NewSettings(setting.Backends("")...)
	scope, err := setting.DeviceScope(netns, "veth0")
	testenv.Must(t, err)
	testenv.InNetns(t, netns, func() error {
		l, err := netlink.LinkByName("veth0")
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
	for backend, value := range map[string]string{
		"feature": "on", "privflag": "on", "channel": "rx=1", "ring": "rx=1", "coalesce": "rx-usecs=1", "pause": "rx=on",
		"rss": "table=default", "flowhash": "sd",
	} {
		s := setting.Setting{Backend: backend, Scope: scope, Key: "udp4"}
		if _, err := settings.Read(s); !errors.Is(err, host.ErrGone) {
			t.Errorf("reading %s gives %v", backend, err)
		}
		if err := settings.Write(s, setting.Text(value)); !errors.Is(err, host.ErrGone) {
			t.Errorf("writing %s gives %v", backend, err)
		}
	}
}
