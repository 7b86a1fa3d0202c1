package topology_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
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
		s, err := topology.OpenPoller(audit.IPv4)
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

// The setting with which IPVS drops packets keeps both versions of IP slow, and so do short times of connections.
func TestSysctlRefusal(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() error {
		for _, family := range []audit.Family{audit.IPv4, audit.IPv6} {
			s, err := topology.OpenPoller(family)
			testenv.Must(t, err)
			defer s.Close()
			refused := ""
			for i := range s.Sysctls() {
				set := make([]string, len(s.Sysctls()))
				set[i] = "1\n"
				refused += s.SysctlRefusal(set)
			}
			if !strings.Contains(refused, "net.ipv4.vs.nat_icmp_send is 1") || !strings.Contains(refused, "net.netfilter.nf_conntrack_udp_timeout_stream is 1 s, ") {
				t.Errorf("family %v: what is refused is %q", family, refused)
			}
		}
		return nil
	})
}

// An ICMP message that something does not get through is counted, in the poller's own namespace.
func TestUnreachables(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), "ip link set lo up")
	testenv.InNetns(t, n.Path(), func() error {
		s, err := topology.OpenPoller(audit.IPv4)
		testenv.Must(t, err)
		defer s.Close()
		before, err := s.Unreachables()
		if err != nil || before != "0" {
			t.Errorf("at first there are %q, %v", before, err)
		}
		c, err := net.Dial("udp4", "127.0.0.1:9") // where nobody listens
		testenv.Must(t, err)
		defer c.Close()
		_, err = c.Write([]byte{0})
		testenv.Must(t, err)
		testenv.Must(t, c.SetReadDeadline(time.Now().Add(testenv.Timeout)))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("the datagram was not refused: %v", err)
		}
		if after, err := s.Unreachables(); err != nil || after != "1" {
			t.Errorf("then there are %q, %v", after, err)
		}
		return nil
	})
}
