package topology_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestLegacyBridgeTables(t *testing.T) {
	sys := t.TempDir()
	if got := nft.LegacyBridgeTables(sys); len(got) > 0 {
		t.Errorf("a kernel that has loaded none has %v", got)
	}
	testenv.Must(t, os.MkdirAll(filepath.Join(sys, "module", "ebtable_filter"), 0o700))
	testenv.Must(t, os.MkdirAll(filepath.Join(sys, "module", "ebtables"), 0o700))
	if got := nft.LegacyBridgeTables(sys); !slices.Equal(got, []string{"filter"}) {
		t.Errorf("tables are %v, want filter", got)
	}
}

// Changes of settings that send no notification are detected.
func TestSilentSettings(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() error {
		s, err := topology.OpenPoller()
		testenv.Must(t, err)
		defer s.Close()
		before := s.Sysctls()
		if again := s.Sysctls(); !slices.Equal(before, again) || !slices.Contains(before, "64\n") {
			t.Errorf("settings are %q, and read again %q", before, again)
		}
		testenv.Must(t, os.WriteFile("/proc/sys/net/ipv4/ip_default_ttl", []byte("77"), 0))
		if after := s.Sysctls(); slices.Equal(before, after) {
			t.Errorf("settings are %q still", after)
		}
		return nil
	})
}
