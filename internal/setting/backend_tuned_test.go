package setting

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// script puts a program of that name in the way of the real one. It adds a line
// to a file each time that it runs.
func script(t *testing.T, name, text string) (log string) {
	t.Helper()
	folder := t.TempDir()
	log = filepath.Join(folder, "log")
	text = fmt.Sprintf("#!/bin/sh\necho \"$*\" >> %s\n%s\n", log, text)
	if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	return log
}

func leaveMark(t *testing.T, file string, b pendingWrite) {
	t.Helper()
	text, err := json.Marshal(b)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestTunedSweep: a write that was killed is done again, unless somebody else has
// set the profile since.
func TestTunedSweep(t *testing.T) {
	log := script(t, "tuned-adm", "")
	text := func(s string) *string { return &s }
	value := func(s TunedState) Value {
		v, err := s.Text()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := TunedState{Profile: text("balanced\n"), Mode: text("auto\n")}
	after := TunedState{Profile: text("network-latency\n"), Mode: text("manual\n")}
	for _, c := range []struct {
		what  string
		now   TunedState
		again bool
	}{
		{"nothing was done", before, true},
		{"the program was run", TunedState{Profile: text("network-latency\n"), Mode: text("auto\n")}, true},
		{"somebody else set a profile", TunedState{Profile: text("powersave\n"), Mode: text("manual\n")}, false},
	} {
		root := t.TempDir()
		folder := filepath.Join(root, "etc/tuned")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]*string{"active_profile": c.now.Profile, "profile_mode": c.now.Mode} {
			if err := os.WriteFile(filepath.Join(folder, name), []byte(*text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		mark := filepath.Join(folder, ".wanted.venturi")
		leaveMark(t, mark, pendingWrite{Old: value(before), New: value(after)})
		os.Remove(log)
		settings, s := NewSettings(Backends(root)...), Setting{Backend: "tuned"}
		if err := settings.Sweep(s); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		want := c.now
		if c.again {
			want = after
		}
		if v, err := settings.Read(s); err != nil || !v.Equal(value(want)) {
			t.Errorf("%s: then it is %s, %v", c.what, v, err)
		}
		if _, err := os.Stat(log); (err == nil) != c.again {
			t.Errorf("%s: tuned was asked: %v, want %v", c.what, err == nil, c.again)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: what was wanted is still marked", c.what)
		}
	}
}

// TestUnitConfigSweep: a service is started anew for a write of ours that was
// killed, and not for what somebody else wrote into its file.
func TestUnitConfigSweep(t *testing.T) {
	log := script(t, "systemctl", fmt.Sprintf(`[ "$1" = show ] && printf 'LoadState=loaded\nActiveState=active\nMainPID=%d\n'; exit 0`, os.Getpid()))
	for _, c := range []struct {
		what, now    string
		mark, starts bool
	}{
		{"ours was killed", "THING_ARGS=ours\n", true, true},
		{"the old one stands", "THING_ARGS=old\n", true, false},
		{"somebody else wrote it", "THING_ARGS=theirs\n", true, false},
		{"nothing of ours is there", "THING_ARGS=theirs\n", false, false},
	} {
		root := t.TempDir()
		if err := os.WriteFile(filepath.Join(root, "thing"), []byte(c.now), 0o644); err != nil {
			t.Fatal(err)
		}
		mark := filepath.Join(root, ".thing.wanted.venturi")
		if c.mark {
			leaveMark(t, mark, pendingWrite{New: Text("THING_ARGS=ours\n")})
		}
		os.Remove(log)
		if err := NewSettings(Backends(root)...).Sweep(Setting{Backend: "unit-config", Key: "thing.service /thing"}); err != nil {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, err := os.Stat(log); (err == nil) != c.starts {
			t.Errorf("%s: systemd was asked: %v, want %v", c.what, err == nil, c.starts)
		}
		if _, err := os.Stat(mark); err == nil {
			t.Errorf("%s: what was wanted is still marked", c.what)
		}
	}
}
