package topology_test

import (
	"errors"
	"net"
	"net/netip"
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

// Of the stale neighbours, those that are asked for are told; the kernel is not asked for none.
func TestStaleNeighbours(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), "ip link add a0 type veth peer b0; ip link set a0 up; for i in 2 3; do ip neigh add 192.0.2.$i lladdr 02:00:00:00:00:0$i dev a0 nud stale; done; ip neigh add 192.0.2.4 lladdr 02:00:00:00:00:04 dev a0")
	testenv.InNetns(t, n.Path(), func() error {
		device, err := net.InterfaceByName("a0")
		testenv.Must(t, err)
		s, err := topology.OpenPoller(audit.IPv4)
		testenv.Must(t, err)
		of := map[topology.Neighbour]bool{}
		for _, addr := range []string{"192.0.2.2", "192.0.2.4", "192.0.2.5"} {
			of[topology.Neighbour{Device: device.Index, Addr: netip.MustParseAddr(addr)}] = true
		}
		want := []topology.Neighbour{{Device: device.Index, Addr: netip.MustParseAddr("192.0.2.2")}}
		if stale, err := s.StaleNeighbours(of); err != nil || !slices.Equal(stale, want) {
			t.Errorf("stale are %v, want %v: %v", stale, want, err)
		}
		s.Close()
		if stale, err := s.StaleNeighbours(nil); err != nil || stale != nil {
			t.Errorf("of none, stale are %v: %v", stale, err)
		}
		return nil
	})
}
