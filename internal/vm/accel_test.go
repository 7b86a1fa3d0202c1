package vm

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
)

// A positive answer about KVM is valid for ever, a negative one expires.
func TestAnswersHold(t *testing.T) {
	for _, c := range []struct {
		usable bool
		age    time.Duration
		holds  bool
	}{
		{true, time.Hour, true}, {true, 0, true},
		{false, 0, true}, {false, noHolds - time.Minute, true},
		{false, noHolds + time.Second, false},
		{false, -time.Hour, false}, // the clock was set back
	} {
		if a := (answer{Usable: c.usable, Asked: time.Now().Add(-c.age)}); a.holds() != c.holds {
			t.Errorf("%+v: holds is %v", c, a.holds())
		}
	}
}

// Other processes read only valid answers.
func TestAnswersAreKept(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root keeps answers")
	}
	key := t.Name() + t.TempDir()
	t.Cleanup(func() { os.Remove(answerFile(key)) })
	for _, c := range []struct {
		answer answer
		there  bool
	}{
		{answer{Usable: true, Asked: time.Now().Add(-time.Hour)}, true},
		{answer{Reason: "it hung", Asked: time.Now()}, true},
		{answer{Reason: "it hung", Asked: time.Now().Add(-time.Hour)}, false},
	} {
		remember(key, c.answer)
		if a, ok := recall(key); ok != c.there || a.Reason != c.answer.Reason {
			t.Errorf("%+v: there is %+v, %v", c, a, ok)
		}
	}
}

// A failure of qemu is no answer about KVM: the next machine probes again.
func TestFailuresOfQemuAreNotKept(t *testing.T) {
	k, err := kernel.Find(kernel.Default)
	if err != nil {
		t.Skip(err)
	}
	program := filepath.Join(t.TempDir(), "qemu")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho no memory >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Kernel: k, Program: []string{exe}, Name: "x"}
	a, kept, err := c.probe(context.Background(), program)
	if err != nil || kept || a.Usable || a.Reason == "" {
		t.Errorf("%+v, kept %v, %v", a, kept, err)
	}
}
