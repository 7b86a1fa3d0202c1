package setting_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// spaces makes two namespaces, and gives the first a veth pair.
func spaces(t *testing.T) (a, b *netcfg.Namespace) {
	t.Helper()
	testenv.Root(t)
	w, err := netcfg.Owned(testenv.Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []**netcfg.Namespace{&a, &b} {
		name := "a"
		if a != nil {
			name = "b"
		}
		if *n, err = w.Create(w.Name(name)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*n).Close)
	}
	addVeth(t, a)
	return a, b
}

func addVeth(t *testing.T, n *netcfg.Namespace) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		return netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "veth0"}, PeerName: "veth1"})
	})
}

func link(t *testing.T, n *netcfg.Namespace, name string, do func(netlink.Link) error) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return do(l)
	})
}

// Undo finds a device by what it is, and not by its name: renamed, it is undone;
// where it is gone, nothing else is touched in its place.
func TestDeviceThatIsNotWhatItWas(t *testing.T) {
	for _, c := range []struct {
		name  string
		upset func(t *testing.T, a, b *netcfg.Namespace)
		state journal.EntryState
		now   string // name of the device that is looked at then
		holds string
		in    int // 0: in a
	}{
		{"renamed", func(t *testing.T, a, _ *netcfg.Namespace) {
			link(t, a, "veth0", func(l netlink.Link) error { return netlink.LinkSetName(l, "other0") })
		}, journal.Undone, "other0", "0", 0},
		{"its name given to another one", func(t *testing.T, a, _ *netcfg.Namespace) {
			link(t, a, "veth0", func(l netlink.Link) error { return netlink.LinkSetName(l, "other0") })
			link(t, a, "veth1", func(l netlink.Link) error { return netlink.LinkSetName(l, "veth0") })
		}, journal.Undone, "other0", "0", 0},
		{"made anew", func(t *testing.T, a, _ *netcfg.Namespace) {
			link(t, a, "veth0", netlink.LinkDel)
			addVeth(t, a)
			link(t, a, "veth0", func(netlink.Link) error { return writeFlush(t, a, "veth0", "1") })
		}, journal.Vanished, "veth0", "1", 0},
		{"moved", func(t *testing.T, a, b *netcfg.Namespace) {
			f, err := os.Open(b.Path())
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			link(t, a, "veth0", func(l netlink.Link) error { return netlink.LinkSetNsFd(l, int(f.Fd())) })
		}, journal.Vanished, "veth0", "1", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := spaces(t)
			scope, err := setting.DeviceScope(a.Path(), "veth0")
			if err != nil {
				t.Fatal(err)
			}
			e, undo := setByJournal(t, setting.Setting{Backend: "net", Scope: scope, Key: "gro_flush_timeout"}, "1")
			c.upset(t, a, b)
			out := undo()
			if out.Err != nil || out.Entry.State != c.state {
				t.Errorf("%s is %s (%s), %v", e.Setting, out.Entry.State, out.Entry.Reason, out.Err)
			}
			if c.state == journal.Vanished && !strings.Contains(out.Entry.Reason, "gone") || c.in == 1 && !strings.Contains(out.Entry.Reason, b.Path()+" has a veth of that name") {
				t.Errorf("it says %q", out.Entry.Reason)
			}
			now, err := setting.DeviceScope([]*netcfg.Namespace{a, b}[c.in].Path(), c.now)
			if err != nil {
				t.Fatal(err)
			}
			v, err := setting.NewSettings(setting.Backends("")...).Read(setting.Setting{Backend: "net", Scope: now, Key: "gro_flush_timeout"})
			if err != nil || strings.TrimSpace(v.String()) != c.holds {
				t.Errorf("%s holds %q, want %s: %v", c.now, v, c.holds, err)
			}
		})
	}
}

func writeFlush(t *testing.T, n *netcfg.Namespace, device, value string) error {
	t.Helper()
	scope, err := setting.DeviceScope(n.Path(), device)
	if err != nil {
		return err
	}
	return setting.NewSettings(setting.Backends("")...).Write(setting.Setting{Backend: "net", Scope: scope, Key: "gro_flush_timeout"}, setting.Text(value))
}

// setCell writes a setting by a journal, and gives what undoes it as another process
// would.
func setByJournal(t *testing.T, s setting.Setting, value string) (*journal.Entry, func() journal.Outcome) {
	t.Helper()
	o := journal.Options{Folder: t.TempDir(), Settings: setting.NewSettings(setting.Backends("")...), User: "a test"}
	j, err := journal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tx.Set("a.knob", setting.Write{Setting: s, Value: setting.Text(value)})
	if err != nil {
		t.Fatal(err)
	}
	return e, func() journal.Outcome {
		j, err := journal.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		if err != nil || len(outcomes) != 1 {
			t.Fatalf("%v, %v", outcomes, err)
		}
		return outcomes[0]
	}
}

// A namespace is found by what it is too: one that took over its name is left
// alone.
func TestNamespaceThatIsNotWhatItWas(t *testing.T) {
	testenv.Root(t)
	w, err := netcfg.Owned(testenv.Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Create(w.Name("a"))
	if err != nil {
		t.Fatal(err)
	}
	scope, err := setting.NetnsScope(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	_, undo := setByJournal(t, setting.Sysctl(scope, "net.core.somaxconn"), "777")
	n.Close()
	if err := w.Delete(w.Name("a")); err != nil {
		t.Fatal(err)
	}
	if n, err = w.Create(w.Name("a")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	somaxconn := func(value string) (text []byte, err error) {
		err = host.Do(n.Path(), func() error {
			const file = "/proc/sys/net/core/somaxconn"
			if value != "" {
				return os.WriteFile(file, []byte(value), 0)
			}
			text, err = os.ReadFile(file)
			return err
		})
		return text, err
	}
	if _, err := somaxconn("777"); err != nil {
		t.Fatal(err)
	}
	out := undo()
	text, err := somaxconn("")
	if out.Err != nil || out.Entry.State != journal.Vanished || err != nil || string(text) != "777\n" {
		t.Errorf("it is %s (%s), %v; the new namespace has %q, %v", out.Entry.State, out.Entry.Reason, out.Err, text, err)
	}
	if err := scope.Enter(func(string) error { return nil }); !errors.Is(err, host.ErrGone) {
		t.Errorf("enter it: %v", err)
	}
}
