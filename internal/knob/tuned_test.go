package knob_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// fakeTuned puts a tuned-adm on PATH that does to a fixture's files what the
// real one does, and gives the file that it tells its calls.
func fakeTuned(t *testing.T, root string) (calls string) {
	t.Helper()
	bin := t.TempDir()
	calls = filepath.Join(bin, "calls")
	script := fmt.Sprintf(`#!/bin/sh
echo "$*" >> %s
cd %s/etc/tuned || exit 1
case "$1" in
profile) shift; [ "$1" = broken ] && { echo "cannot load it" >&2; exit 1; }
	echo "$*" > active_profile; echo manual > profile_mode ;;
off) : > active_profile; echo manual > profile_mode ;;
*) exit 2 ;;
esac
`, calls, root)
	if err := os.WriteFile(filepath.Join(bin, "tuned-adm"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return calls
}

func tunedMachine(t *testing.T, files map[string]string) (bench, string) {
	t.Helper()
	all := map[string]string{
		"/usr/lib/tuned/network-latency/tuned.conf":      "[main]\n",
		"/usr/lib/tuned/profiles/broken/tuned.conf":      "[main]\n",
		"/etc/tuned/own/tuned.conf":                      "[main]\n",
		"/run/tuned/tuned.pid":                           "7\n",
		"/proc/7/comm":                                   "tuned\n",
		"/usr/lib/tuned/recommend.d/50-automatic.config": "",
	}
	for name, text := range files {
		all[name] = text
	}
	b := fixture(t, all)
	return b, fakeTuned(t, b.m.Root)
}

func TestTunedProfile(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		was   string
		back  string // the last call that undo makes
	}{
		"never had any": {nil, "none", "off"},
		"off":           {map[string]string{"/etc/tuned/active_profile": "", "/etc/tuned/profile_mode": "manual\n"}, "none", "off"},
		"chosen by it":  {map[string]string{"/etc/tuned/active_profile": "own\n", "/etc/tuned/profile_mode": "auto\n"}, "own", "profile own"},
		"old version":   {map[string]string{"/etc/tuned/active_profile": "own"}, "own", "profile own"},
		"several":       {map[string]string{"/etc/tuned/active_profile": "own network-latency\n", "/etc/tuned/profile_mode": "manual\n"}, "own network-latency", "profile own network-latency"},
	} {
		t.Run(name, func(t *testing.T) {
			b, calls := tunedMachine(t, c.files)
			if got := b.get("tuned.profile", knob.Target{}); got != c.was {
				t.Errorf("it has %q, want %q", got, c.was)
			}
			b.turns("tuned.profile", knob.Target{}, "network-latency", "network-latency")
			for _, file := range []string{"/etc/tuned/active_profile", "/etc/tuned/profile_mode"} {
				text, err := os.ReadFile(filepath.Join(b.m.Root, file))
				want, there := c.files[file]
				if string(text) != want || there != (err == nil) {
					t.Errorf("%s holds %q, %v; want %q", file, text, err, want)
				}
			}
			text, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(string(text)); got != "profile network-latency\n"+c.back {
				t.Errorf("tuned was told %q", got)
			}
		})
	}
}

// Who is killed between the program and the files leaves what was wanted behind.
func TestTunedKilled(t *testing.T) {
	old := map[string]string{"/etc/tuned/active_profile": "own\n", "/etc/tuned/profile_mode": "auto\n"}
	const mark = "/etc/tuned/.wanted.venturi"
	for name, wanted := range map[string]string{
		"setting": `{"old":"{\"active_profile\":\"own\\n\",\"profile_mode\":\"auto\\n\"}","new":"{\"active_profile\":\"network-latency\\n\",\"profile_mode\":\"manual\\n\"}"}`,
		"undoing": `{"old":"{\"active_profile\":\"network-latency\\n\",\"profile_mode\":\"manual\\n\"}","new":"{\"active_profile\":\"own\\n\",\"profile_mode\":\"auto\\n\"}"}`,
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := tunedMachine(t, old)
			if err := b.set("tuned.profile", knob.Target{}, "network-latency"); err != nil {
				t.Fatal(err)
			}
			for file, text := range map[string]string{"/etc/tuned/active_profile": "own\n", "/etc/tuned/profile_mode": "manual\n", mark: wanted} {
				if err := os.WriteFile(filepath.Join(b.m.Root, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			b.undo()
			for file, want := range map[string]string{"/etc/tuned/active_profile": "own\n", "/etc/tuned/profile_mode": "auto\n", mark: ""} {
				if text, _ := os.ReadFile(filepath.Join(b.m.Root, file)); string(text) != want {
					t.Errorf("%s holds %q, want %q", file, text, want)
				}
			}
		})
	}
}

func TestTunedRefused(t *testing.T) {
	b, _ := tunedMachine(t, map[string]string{"/etc/tuned/active_profile": "own\n"})
	b.refused("tuned.profile", knob.Target{}, verr.Usage, "nosuch", "", "own nosuch")
	if err := b.set("tuned.profile", knob.Target{}, "broken"); err == nil || !strings.Contains(err.Error(), "cannot load it") {
		t.Errorf("a profile that cannot be loaded: %v", err)
	}
	if got := b.get("tuned.profile", knob.Target{}); got != "own" {
		t.Errorf("after it, it has %q", got)
	}
	b.turns("tuned.profile", knob.Target{}, "none", "none")
	if err := os.Remove(filepath.Join(b.m.Root, "/run/tuned/tuned.pid")); err != nil {
		t.Fatal(err)
	}
	b.refused("tuned.profile", knob.Target{}, verr.Missing, "own")
	if _, err := entry(t, "tuned.profile").Get(fixture(t, nil).m, knob.Target{}); verr.Code(err) != verr.Missing {
		t.Errorf("a machine without tuned: %v", err)
	}
}
