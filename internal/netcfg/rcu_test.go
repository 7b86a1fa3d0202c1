package netcfg

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Grace periods are short for as long as somebody asks, and as they were when the process that
// asked was killed.
func TestExpediteRCU(t *testing.T) {
	fakeRCU(t)
	set := func(v string) {
		t.Helper()
		if err := os.WriteFile(rcuExpedited, []byte(v), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when, want string, recorded bool) {
		t.Helper()
		is, err := os.ReadFile(rcuExpedited)
		if err != nil || string(is) != want || isRCURecorded() != recorded {
			t.Errorf("%s: %q (%v), recorded %v; want %q, %v", when, is, err, isRCURecorded(), want, recorded)
		}
	}
	set("0\n")
	first, second := ExpediteRCU(), ExpediteRCU()
	check("asked for twice", "1", true)
	first()
	check("the first is done", "0", false)
	second()
	check("both are done", "0", false)

	first, second = ExpediteRCU(), ExpediteRCU()
	first()
	third := ExpediteRCU()
	second()
	third()
	check("three by turns are done", "0", false)

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

// A long series of steps has short grace periods although another process ends its own meanwhile, or
// is killed and has them undone.
func TestExpediteRCUSteps(t *testing.T) {
	fakeRCU(t)
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	is := func() string {
		text, err := os.ReadFile(rcuExpedited)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	step, restore := ExpediteRCUSteps()
	for name, end := range map[string]func(){"nothing": func() {}, "another's end": ExpediteRCU(), "what a killed one left was undone": func() {
		if err := RestoreRCU(); err != nil {
			t.Error(err)
		}
	}} {
		end()
		time.Sleep(rcuSlice)
		if step(); is() != "1" {
			t.Errorf("a step after %s has long grace periods", name)
		}
	}
	if restore(); is() != "0" {
		t.Error("after the last step they stay short")
	}
}

// However many ask at a time, and begin as others end, it is as it was in the end.
func TestExpediteRCUAtOnce(t *testing.T) {
	fakeRCU(t)
	defer func(real time.Duration) { rcuRestoreLimit = real }(rcuRestoreLimit)
	rcuRestoreLimit = time.Minute // however slowly they take turns
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				ExpediteRCU()()
			}
		})
	}
	all.Wait()
	if is, err := os.ReadFile(rcuExpedited); string(is) != "0" || err != nil {
		t.Errorf("it is %q in the end (%v)", is, err)
	}
	if isRCURecorded() {
		t.Error("the record is left")
	}
}

// Whoever holds the lock for long keeps grace periods from being shortened, and nothing else: nobody waits
// for them without end, and what was shortened is as it was.
func TestExpediteRCULocked(t *testing.T) {
	fakeRCU(t)
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	end := ExpediteRCU()
	f, err := os.Open(rcuFolder)
	if err != nil {
		t.Fatal(err)
	}
	unlock := sync.OnceFunc(func() { f.Close() })
	defer unlock()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		end()
		ExpediteRCU()
		if is, err := os.ReadFile(rcuExpedited); string(is) != "0" || err != nil {
			t.Errorf("it is %q beside a holder of the lock (%v)", is, err)
		}
		if err := RestoreRCU(); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("after a minute, it waits for the lock")
	}
	unlock()
	<-done
	ExpediteRCU()
	if err := RestoreRCU(); err != nil {
		t.Error(err)
	}
	if is, err := os.ReadFile(rcuExpedited); string(is) != "0" || err != nil || isRCURecorded() {
		t.Errorf("in the end it is %q (%v), recorded %v", is, err, isRCURecorded())
	}
}

// What a killed process of an earlier version has recorded is undone, once.
func TestRestoreRCUOfEarlierVersion(t *testing.T) {
	fakeRCU(t)
	for file, text := range map[string]string{rcuExpedited: "1", rcuOldRecord: ""} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ExpediteRCU()()
	if is, err := os.ReadFile(rcuExpedited); string(is) != "1" || err != nil {
		t.Errorf("who does not know that it is to be restored has made it %q (%v)", is, err)
	}
	for _, want := range []string{"0", "1"} {
		if err := RestoreRCU(); err != nil {
			t.Error(err)
		}
		if is, err := os.ReadFile(rcuExpedited); string(is) != want || err != nil || exists(rcuOldRecord) {
			t.Errorf("it is %q (%v), want %q; recorded %v", is, err, want, exists(rcuOldRecord))
		}
		if err := os.WriteFile(rcuExpedited, []byte("1"), 0o600); err != nil { // somebody else wants it so
			t.Fatal(err)
		}
	}
}

// The folder of the record is nobody else's to open, whoever has made it, and is left where it was.
func TestExpediteRCUFolder(t *testing.T) {
	fakeRCU(t)
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0o600); err != nil {
		t.Fatal(err)
	}
	end := ExpediteRCU()
	if info, err := os.Stat(rcuFolder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %+v (%v)", info, err)
	}
	if end(); exists(rcuFolder) {
		t.Error("the folder is left, though nothing is in it")
	}
	other := filepath.Join(rcuFolder, "other")
	if err := os.MkdirAll(other, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(rcuFolder, 0o755); err != nil { // whatever the mask of this process is
		t.Fatal(err)
	}
	ExpediteRCU()()
	if info, err := os.Stat(rcuFolder); err != nil || info.Mode().Perm() != 0o700 || !exists(other) {
		t.Errorf("the folder that others have: %+v (%v); what is in it is there: %v", info, err, exists(other))
	}
}

// fakeRCU puts files of a test in place of the host's.
func fakeRCU(t *testing.T) {
	t.Helper()
	folder, real := t.TempDir(), [3]string{rcuExpedited, rcuFolder, rcuOldRecord}
	rcuExpedited, rcuFolder, rcuOldRecord = filepath.Join(folder, "expedited"), filepath.Join(folder, "state"), filepath.Join(folder, "old")
	t.Cleanup(func() { rcuExpedited, rcuFolder, rcuOldRecord = real[0], real[1], real[2] })
}

func isRCURecorded() bool { return exists(filepath.Join(rcuFolder, rcuRecord)) }
