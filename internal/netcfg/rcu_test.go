package netcfg

import (
	"os"
	"path/filepath"
	"testing"
)

// Grace periods are short for as long as somebody asks, and as they were when the process that
// asked was killed.
func TestExpediteRCU(t *testing.T) {
	folder := t.TempDir()
	rcuExpedited, rcuRecord = filepath.Join(folder, "expedited"), filepath.Join(folder, "record")
	t.Cleanup(func() { rcuExpedited, rcuRecord = "/sys/kernel/rcu_expedited", "/run/venturi-rcu-expedited" })
	set := func(v string) {
		t.Helper()
		if err := os.WriteFile(rcuExpedited, []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, want string, recorded bool) {
		t.Helper()
		is, err := os.ReadFile(rcuExpedited)
		_, record := os.Stat(rcuRecord)
		if err != nil || string(is) != want || (record == nil) != recorded {
			t.Errorf("%s: %q (%v), recorded %v; want %q, %v", when, is, err, record == nil, want, recorded)
		}
	}
	set("0\n")
	first, second := ExpediteRCU(), ExpediteRCU()
	check("asked for twice", "1", true)
	first()
	check("the first is done", "0", false)
	second()
	check("both are done", "0", false)

	ExpediteRCU()
	check("killed", "1", true)
	if err := RestoreRCU(); err != nil {
		t.Error(err)
	}
	check("restored", "0", false)

	ExpediteRCU()
	ExpediteRCU()()
	check("killed, and asked for by the next", "0", false)

	set("1\n")
	ExpediteRCU()()
	if err := RestoreRCU(); err != nil {
		t.Error(err)
	}
	check("of the host's own", "1\n", false)

	if err := os.Remove(rcuExpedited); err != nil {
		t.Fatal(err)
	}
	ExpediteRCU()()
	if _, err := os.Stat(rcuExpedited); err == nil {
		t.Error("a host without it has it")
	}
}
