package setting_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Roles{"hold": hold}) }

// namespace makes a namespace of our own that is gone after the test.
func namespace(t *testing.T) (*netcfg.Writer, *netcfg.Namespace) {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	must(t, err)
	n, err := w.Create(w.Name("m1"))
	must(t, err)
	t.Cleanup(n.Close)
	return w, n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
