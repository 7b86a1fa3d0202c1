package netcfg_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// owned gives the writer of a lab of this test's own.
func owned(t *testing.T) *netcfg.Writer {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	return w
}

func TestLabNames(t *testing.T) {
	for name, good := range map[string]bool{
		"lab": true, "run-12": true, "0": true, strings.Repeat("a", netcfg.MaxLab): true,
		"": false, "a.b": false, "../x": false, "Lab": false, "-a": false, "a b": false,
		strings.Repeat("a", netcfg.MaxLab+1): false,
	} {
		if _, err := netcfg.Owned(name); (err == nil) != good {
			t.Errorf("Owned(%q) = %v, want success: %v", name, err, good)
		}
	}
}

func TestLabOf(t *testing.T) {
	for name, want := range map[string]string{
		"venturi.lab.m1": "lab", "venturi.lab.m1.routed.2": "lab",
		"venturi.lab": "", "venturi": "", "other.lab.m1": "", "venturi..m1": "",
	} {
		if got, ok := netcfg.LabOf(name); ok != (want != "") || ok && got != want {
			t.Errorf("LabOf(%q) = %q, %v, want %q", name, got, ok, want)
		}
	}
}

// foreign are names that the writer of lab "mine" must not act on.
var foreign = []string{
	"", "m1", "venturi", "venturi.", "venturi.mine", "venturi.mine.", "venturi.other.m1",
	"venturi.mine2.m1", "venturi.mine./etc/passwd", "venturi.mine.../../x", "venturi.mine.M1", "default",
}

// Refusing needs no root: it comes before anything else.
func TestRefusesWhatIsNotOurs(t *testing.T) {
	w, err := netcfg.Owned("mine")
	testenv.Must(t, err)
	for _, name := range foreign {
		_, create := w.Create(name)
		_, open := w.Open(name)
		for what, err := range map[string]error{
			"Create": create, "Open": open, "Delete": w.Delete(name), "Kill": w.Kill([]string{name}, 0),
		} {
			if !errors.Is(err, netcfg.ErrNotOwned) {
				t.Errorf("%s(%q) = %v, want %v", what, name, err, netcfg.ErrNotOwned)
			}
		}
	}
}

// A name with our mark that stands for the machine's own namespace is not ours
// either: somebody gave it that name.
func TestRefusesTheMachinesOwnNamespace(t *testing.T) {
	w := owned(t)
	name := w.Name("m1")
	n, err := w.Create(name)
	testenv.Must(t, err)
	n.Close()
	// The lab's namespaces are files, so a link can stand for another one.
	testenv.Must(t, w.Delete(name))
	testenv.Must(t, os.Symlink("/proc/self/ns/net", host.NamespacePath(name)))
	if _, err := w.Open(name); !errors.Is(err, netcfg.ErrNotOwned) {
		t.Errorf("Open = %v, want %v", err, netcfg.ErrNotOwned)
	}
	if err := w.Kill([]string{name}, 0); !errors.Is(err, netcfg.ErrNotOwned) {
		t.Errorf("Kill = %v, want %v", err, netcfg.ErrNotOwned)
	}
	testenv.Must(t, w.Delete(name))
}

func TestCreateAndDelete(t *testing.T) {
	w := owned(t)
	name := w.Name("m1")
	n, err := w.Create(name)
	testenv.Must(t, err)
	id, err := host.ID(n.Path())
	testenv.Must(t, err)
	if own, err := host.ID("/proc/self/ns/net"); err != nil || own == id {
		t.Fatalf("the new namespace is that of the process (%v)", err)
	}
	if _, err := w.Create(name); !errors.Is(err, os.ErrExist) {
		t.Errorf("second Create = %v, want %v", err, os.ErrExist)
	}
	if list, err := w.Namespaces(); err != nil || !slices.Equal(list, []string{name}) {
		t.Errorf("Namespaces = %v, %v, want %s", list, err, name)
	}
	n.Close()
	testenv.Must(t, w.Delete(name))
	testenv.Must(t, w.Delete(name)) // what is not there is no error
	if list, err := w.Namespaces(); err != nil || len(list) != 0 {
		t.Errorf("Namespaces = %v, %v, want none", list, err)
	}
}

// A builder that was killed between making the file and mounting on it leaves
// an empty file.
func TestDeleteHalfMade(t *testing.T) {
	w := owned(t)
	name := w.Name("m1")
	testenv.Must(t, os.WriteFile(host.NamespacePath(name), nil, 0o444))
	if _, err := w.Open(name); err == nil {
		t.Error("Open of a half-made namespace succeeded")
	}
	testenv.Must(t, w.Kill([]string{name}, 0))
	testenv.Must(t, w.Delete(name))
	if _, err := os.Lstat(filepath.Join(host.NamespaceFolder, name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestSysctl(t *testing.T) {
	w := owned(t)
	n, err := w.Create(w.Name("m1"))
	testenv.Must(t, err)
	defer n.Close()
	const name = "net.ipv4.ip_forward"
	outside, err := host.Reader{}.Sysctl(name)
	testenv.Must(t, err)
	for _, value := range []string{"1", "0"} {
		testenv.Must(t, n.Sysctl(netcfg.Sysctl{Name: name, Value: value}))
		testenv.InNetns(t, n.Path(), func() error {
			if got, err := (host.Reader{}).Sysctl(name); got != value {
				t.Errorf("%s inside is %q (%v), want %q", name, got, err, value)
			}
			return nil
		})
	}
	if now, err := (host.Reader{}).Sysctl(name); now != outside {
		t.Errorf("%s of the machine went from %q to %q (%v)", name, outside, now, err)
	}
	if err := n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.no_such_thing", Value: "1"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("unknown setting: %v, want %v", err, os.ErrNotExist)
	}
	testenv.Must(t, n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.no_such_thing", Value: "1", Optional: true}))
	// tcp_mem takes any three numbers; the kernel writes them back with tabs.
	testenv.Must(t, n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.tcp_rmem", Value: "4096 131072 7340032"}))
}

// Paths that are built at once write the same switches of their machine. The kernel
// takes a forwarding switch back, for a moment, when somebody else has the lock of
// the network settings: that must neither look like a refusal nor leave a device
// behind that does not forward.
func TestSysctlOfManyAtOnce(t *testing.T) {
	w := owned(t)
	for range 100 {
		n, err := w.Create(w.Name("m1"))
		testenv.Must(t, err)
		var all errgroup.Group
		for i := range 8 {
			all.Go(func() error {
				return netcfg.AddVeth(netcfg.VethEnd{In: n, Name: fmt.Sprintf("a%d", i)}, netcfg.VethEnd{In: n, Name: fmt.Sprintf("b%d", i)}, 1500)
			})
			all.Go(func() error {
				return n.Sysctl(netcfg.Sysctl{Name: "net.ipv4.ip_forward", Value: "1"})
			})
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		for i := range 8 {
			device := fmt.Sprintf("net/ipv4/conf/a%d/forwarding", i)
			var got string
			testenv.Must(t, host.Do(n.Path(), func() (err error) { got, err = host.Reader{}.Sysctl(device); return err }))
			if got != "1" {
				t.Errorf("%s is %q, want 1", device, got)
			}
		}
		n.Close()
		testenv.Must(t, w.Delete(w.Name("m1")))
	}
}

// A feature that the kernel takes away along with another is told, not missed.
func TestFeaturesAreReadBack(t *testing.T) {
	w := owned(t)
	n, err := w.Create(w.Name("m1"))
	testenv.Must(t, err)
	defer n.Close()
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a"}, netcfg.VethEnd{In: n, Name: "b"}, 1500))
	testenv.Must(t, n.Features("a", map[string]bool{"tx-tcp-segmentation": false, "rx-gro": true}))
	testenv.InNetns(t, n.Path(), func() error {
		got, err := host.Features("a")
		if got["tx-tcp-segmentation"] || !got["rx-gro"] {
			t.Errorf("TSO %v and GRO %v, want off and on", got["tx-tcp-segmentation"], got["rx-gro"])
		}
		return err
	})
	err = n.Features("a", map[string]bool{"tx-checksum-ip-generic": false, "tx-tcp-segmentation": true})
	if err == nil || !strings.Contains(err.Error(), "tx-tcp-segmentation") {
		t.Errorf("TSO without checksums: %v, want an error that names it", err)
	}
	if err := n.Features("a", map[string]bool{"no-such-feature": true}); err == nil {
		t.Error("an unknown feature was accepted")
	}
}

// WithScratch leaves nothing; that the process' own namespace is untouched is what
// the leak check of TestMain sees.
func TestWithScratch(t *testing.T) {
	testenv.Root(t)
	err := netcfg.WithScratch(func(n *netcfg.Namespace) error {
		return n.AddBridge("scratch0", nil, 1500)
	})
	testenv.Must(t, err)
}
