package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Leftovers lists what of ours is on the machine: processes, namespaces, devices, files, and a
// card that is promiscuous. What tests made there themselves is named in but.
func (m *SSHMachine) Leftovers(t testing.TB, but ...string) (left []string) {
	t.Helper()
	for _, command := range m.Processes() {
		left = append(left, "process "+command)
	}
	names, _ := filepath.Glob(m.Root() + "/run/netns/venturi.*")
	left = append(left, names...)
	if entries, err := os.ReadDir(m.Root() + "/run/venturi"); err == nil {
		left = append(left, fmt.Sprintf("/run/venturi with %v", entries))
	}
	for _, folder := range []string{"/run", "/tmp", "/var/tmp", "/dev/shm", "/root"} {
		copies, _ := filepath.Glob(m.Root() + folder + "/venturi-*")
		left = append(left, copies...)
	}
	// Beside its own, a machine has the devices that modules make everywhere when they are loaded.
	for _, device := range m.Devices(t, append(but, "lo", "eth0", "tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip6tnl0")...) {
		left = append(left, "device "+device)
	}
	if m.wired && strings.Contains(m.Flags(t, "eth0"), "PROMISC") {
		left = append(left, "eth0 is promiscuous")
	}
	return left
}

// WantNothingLeft waits until nothing of ours is on the machine, and fails the test after limit.
func (m *SSHMachine) WantNothingLeft(t testing.TB, limit time.Duration, but ...string) {
	t.Helper()
	end := time.Now().Add(limit)
	for len(m.Processes()) > 0 && time.Now().Before(end) { // for all else programs have to be asked
		time.Sleep(20 * time.Millisecond)
	}
	left := m.Leftovers(t, but...)
	for ; len(left) > 0 && time.Now().Before(end); left = m.Leftovers(t, but...) {
		time.Sleep(20 * time.Millisecond)
	}
	if len(left) > 0 {
		t.Errorf("%v later machine %s still has %q", limit, m.Name, left)
	}
}
