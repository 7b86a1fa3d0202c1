package lab_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A card of the host that is in a lab's namespace is never deleted with it, also when the journal
// does not know it.
func TestRemoveSparesUnknownCard(t *testing.T) {
	testenv.Root(t)
	name := testenv.LabName()
	w, err := netcfg.Owned(name)
	testenv.Must(t, err)
	n, err := w.Create(w.Name("m1"))
	testenv.Must(t, err)
	defer n.Close()
	testenv.Must(t, os.MkdirAll(folder(name), 0o700))
	testenv.Must(t, n.AddBridge("wire0", nil, 1500))
	ip := func(args ...string) {
		t.Helper()
		if _, err := n.Run(t.Context(), netcfg.Command{Args: append([]string{"/sbin/ip"}, args...)}, ""); err != nil {
			t.Fatal(err)
		}
	}
	ip("link", "set", "wire0", "alias", "lent to venturi: eth1, number 3, of network namespace 1/2")
	err = lab.Remove(t.Context(), name)
	if err == nil || !strings.Contains(err.Error(), "wire0 (lent to venturi: eth1") || !strings.Contains(err.Error(), "venturi undo") {
		t.Errorf("error %v", err)
	}
	if _, err := host.ID(filepath.Join(host.NamespaceFolder, w.Name("m1"))); err != nil {
		t.Errorf("the namespace has gone: %v", err)
	}
	ip("link", "set", "wire0", "alias", "")
	testenv.Must(t, lab.Remove(t.Context(), name))
	if hasTraces(t, name) {
		t.Error("something is left")
	}
}
