package setting

import "testing"

// TestAlike: what is rounded is alike and not the same, and a list of cores is no mask.
func TestAlike(t *testing.T) {
	settings := NewSettings(Backends("")...)
	for _, c := range []struct {
		backend, key, asked, found string
		alike, same                bool
	}{
		{"sysctl", "net/core/somaxconn", "1000", "1024\n", false, false},
		{"sysctl", "net/core/somaxconn", "1024", "1024\n", true, true},
		{"sysctl", "net/core/somaxconn", "1024", "01024\n", false, false},
		{"sysctl", "net/ipv4/tcp_rmem", "4096 131072 6291456", "4096\t131072\t6291456\n", true, true},
		{"sysctl", "net/core/rps_sock_flow_entries", "1000", "1024\n", true, false},
		{"sysctl", "net/core/rps_sock_flow_entries", "1000", "2048\n", false, false},
		{"sysctl", "net/core/flow_limit_cpu_bitmap", "3", "00000000,00000003\n", true, true},
		{"net", "queues/rx-0/rps_cpus", "3", "00000000,00000003\n", true, true},
		{"net", "queues/rx-0/rps_cpus", "3", "00000000,00000007\n", false, false},
		{"net", "queues/rx-0/rps_flow_cnt", "1000", "1024\n", true, false},
		{"net", "gro_flush_timeout", "20000", "32768\n", false, false},
		{"kernel", "/proc/irq/5/smp_affinity_list", "0,2", "2\n", false, false},
		{"kernel", "/proc/irq/5/smp_affinity", "0,2", "2\n", true, true},
		{"irq", "0000:00:03.0 eth0", "0,2", "2\n", false, false},
		{"irq", "0000:00:03.0 eth0", "0,12", "012\n", false, false},
		{"irq", "0000:00:03.0 eth0", "0,1,2", "0-2\n", true, true},
		{"ring", "", "rx=1000", "rx=1024,tx=256", true, false},
		{"ring", "", "rx=1024", "rx=1024,tx=256", true, true},
		{"ring", "", "rx=1024,rx-buf-len=1000", "rx=1024,rx-buf-len=1024", false, false},
		{"channel", "", "combined=3", "combined=4", false, false},
	} {
		s := Setting{Backend: c.backend, Key: c.key}
		if got := settings.Matches(s, Text(c.asked), Text(c.found)); got != c.alike {
			t.Errorf("%s: %q and %q are alike: %v, want %v", s, c.asked, c.found, got, c.alike)
		}
		if got := settings.Equivalent(s, Text(c.asked), Text(c.found)); got != c.same {
			t.Errorf("%s: %q and %q are the same: %v, want %v", s, c.asked, c.found, got, c.same)
		}
	}
}
