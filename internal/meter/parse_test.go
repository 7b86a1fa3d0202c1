package meter

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

const fixture = "testdata/machine"

// sampleOf opens a meter of the table on the fixture and gives its counters.
func sampleOf(t *testing.T, name string) map[string]int64 {
	t.Helper()
	entry, err := find(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := entry.Open(Setup{Root: fixture, Arms: []Arm{{Name: "a", Ends: []string{""}, Crossed: []string{""}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	values := make([]int64, len(s.Keys()))
	for range 2 { // the second must not add to the first
		if err := s.Sample(0, values); err != nil {
			t.Fatal(err)
		}
	}
	if s.Resolution() == "" {
		t.Error("no resolution")
	}
	out := map[string]int64{}
	for i, key := range s.Keys() {
		if _, twice := out[key]; twice {
			t.Errorf("key %s twice", key)
		}
		out[key] = values[i]
	}
	return out
}

func TestFixtures(t *testing.T) {
	for name, want := range map[string]map[string]int64{
		"softnet": {"softnet/processed": 0xa1f3 + 0xd, "softnet/dropped": 3, "softnet/squeezed": 17},
		"tcp": {
			"tcp/in_segments": 100, "tcp/out_segments": 200, "tcp/retransmits": 7, "tcp/in_errors": 1,
			"tcp/checksum_errors": 2, "tcp/timeouts": 12, "tcp/fast_retransmits": 13, "tcp/loss_probes": 11,
			"tcp/receive_queue_drops": 16, "tcp/backlog_drops": 15,
			// This kernel does not have them.
			"tcp/slow_start_retransmits": 0, "tcp/spurious_timeouts": 0, "tcp/out_of_order": 0, "tcp/delivered": 0,
		},
		"udp": {
			"udp/in_datagrams": 31, "udp/no_port": 32, "udp/in_errors": 33, "udp/out_datagrams": 34,
			"udp/receive_buffer_full": 35, "udp/send_buffer_full": 36, "udp/checksum_errors": 37,
			"udp/reassembly_fails": 5, "udp/fragments_made": 6,
		},
		"links": {"links/rx_errors": 11, "links/rx_dropped": 22, "links/tx_errors": 33, "links/tx_dropped": 44},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sampleOf(t, name); !maps.Equal(got, want) {
				t.Errorf("got  %v\nwant %v", got, want)
			}
		})
	}
}

func TestCPUFixture(t *testing.T) {
	got := sampleOf(t, "cpu")
	const unit = int64(10 * time.Millisecond)
	for key, want := range map[string]int64{
		"cpu0/user": 19587 * unit, "cpu0/nice": unit, "cpu0/system": 6673 * unit, "cpu0/irq": 4 * unit,
		"cpu0/softirq": 1521 * unit, "cpu0/steal": 40 * unit, "cpu0/guest": 3 * unit,
		"cpu2/system": 6945 * unit, "user": (19587 + 20540) * unit, "steal": 86 * unit,
	} {
		if got[key] != want {
			t.Errorf("%s is %d, want %d", key, got[key], want)
		}
	}
	if _, ok := got["cpu1/busy"]; ok {
		t.Error("core 1 is not in the file")
	}
	if got["busy"] != got["cpu0/busy"]+got["cpu2/busy"] {
		t.Error("busy is not the sum of the cores'")
	}
}

// TestEveryMeterHasAFixture keeps the table and the tests above together.
func TestEveryMeterHasAFixture(t *testing.T) {
	names := Names()
	slices.Sort(names)
	// That of the fast path is made in its own test: it is no file.
	if want := []string{"accel", "cpu", "links", "softnet", "tcp", "threads", "udp"}; !slices.Equal(names, want) {
		t.Errorf("the table has %v, the tests know %v", names, want)
	}
	for _, e := range Table {
		if e.Summary == "" {
			t.Errorf("%s has no summary", e.Name)
		}
	}
}

func TestMalformed(t *testing.T) {
	dst := make([]int64, 16)
	for name, err := range map[string]error{
		"softnet, two columns":   new(softnet).count([]byte("00000001 00000002\n"), dst),
		"softnet, not hex":       new(softnet).count([]byte("0000000g 1 1\n"), dst),
		"snmp, odd lines":        addTables([]byte("Udp: A B\n"), udpFields, dst),
		"snmp, wrong second":     addTables([]byte("Udp: A B\nTcp: 1 2\n"), udpFields, dst),
		"snmp, short second":     addTables([]byte("Udp: InDatagrams NoPorts\nUdp: 1\n"), udpFields, dst),
		"dev, no name":           addDevices([]byte("h\nh\n1 2 3\n"), dst),
		"dev, short":             addDevices([]byte("h\nh\neth0: 1 2 3\n"), dst),
		"stat, a core went away": parseStat([]byte("cpu0 1 1 1 1 1 1 1 1 1 1\n"), []int{0, 1}, make([]cpuTimes, 2)),
		"stat, short":            parseStat([]byte("cpu0 1 1 1\n"), []int{0}, make([]cpuTimes, 1)),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := statCores([]byte("intr 1\n"), nil); err == nil {
		t.Error("a stat without cores: accepted")
	}
}

// seed adds the fixture's file and spoilt forms of it.
func seed(f *testing.F, path string) {
	b, err := os.ReadFile(filepath.Join(fixture, "proc", path))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(b[:len(b)/2])
	f.Add([]byte{})
	f.Add([]byte("\n\n"))
}

func FuzzSoftnet(f *testing.F) {
	seed(f, "net/softnet_stat")
	f.Fuzz(func(t *testing.T, b []byte) { new(softnet).count(b, make([]int64, len(softnetKeys))) })
}

func FuzzTables(f *testing.F) {
	seed(f, "thread-self/net/snmp")
	seed(f, "thread-self/net/netstat")
	f.Fuzz(func(t *testing.T, b []byte) {
		addTables(b, tcpFields, make([]int64, len(tcpFields)))
		addTables(b, udpFields, make([]int64, len(udpFields)))
	})
}

func FuzzDevices(f *testing.F) {
	seed(f, "thread-self/net/dev")
	f.Fuzz(func(t *testing.T, b []byte) { addDevices(b, make([]int64, len(linkKeys))) })
}

func FuzzStat(f *testing.F) {
	seed(f, "stat")
	f.Fuzz(func(t *testing.T, b []byte) {
		cores, err := statCores(b, nil)
		if err != nil {
			return
		}
		parseStat(b, cores, make([]cpuTimes, len(cores)))
	})
}
