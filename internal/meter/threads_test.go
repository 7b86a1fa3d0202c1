package meter

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fakeThread makes a thread of a process in a fixture, which has used some ns.
func fakeThread(t *testing.T, root string, process, id int, owner, name string, ns int) {
	t.Helper()
	of := filepath.Join(root, "proc", strconv.Itoa(process))
	task := filepath.Join(of, "task", strconv.Itoa(id))
	if err := os.MkdirAll(task, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		filepath.Join(of, "comm"):        owner + "\n",
		filepath.Join(task, "comm"):      name + "\n",
		filepath.Join(task, "schedstat"): strconv.Itoa(ns) + " 5 7\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Threads are named, those that come up before an arm's first slice are found, and each counts
// from the slice in which it was found.
func TestThreadsFixture(t *testing.T) {
	root := t.TempDir()
	fakeThread(t, root, 17, 17, "ksoftirqd/1", "ksoftirqd/1", 1000)
	fakeThread(t, root, 30, 30, "kworker/0:1-events", "kworker/0:1-events", 500)
	fakeThread(t, root, 800, 801, "ovs-vswitchd", "handler1", 100)
	r, err := NewRecorder("m1", []string{"threads"}, Setup{Root: root, Arms: []Arm{{Name: "a"}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	second := int(time.Second)
	r.Begin(0)
	fakeThread(t, root, 17, 17, "ksoftirqd/1", "ksoftirqd/1", 1000+second)
	fakeThread(t, root, 900, 900, "qemu", "qemu", 5*second)
	r.Begin(1) // finds it, and so a slice of the other arm that runs counts it from here
	fakeThread(t, root, 900, 900, "qemu", "qemu", 6*second)
	if err := os.RemoveAll(filepath.Join(root, "proc", "800")); err != nil {
		t.Fatal(err)
	}
	r.End(1)
	r.End(0)
	got := map[string]map[string]int64{}
	for _, m := range r.Meters() {
		if m.Resolution == "" || strings.Contains(m.Resolution, "not read") {
			t.Errorf("%s: %q", m.Arm, m.Resolution)
		}
		got[m.Arm] = m.Values
	}
	if want := map[string]int64{"ksoftirqd/1#17": int64(second), "qemu#900": int64(second)}; !maps.Equal(got["a"], want) {
		t.Errorf("a: %v, want %v", got["a"], want)
	}
	if want := map[string]int64{"qemu#900": int64(second)}; !maps.Equal(got["b"], want) {
		t.Errorf("b: %v, want %v", got["b"], want)
	}
	for names, want := range map[[2]string]string{
		{"ovs-vswitchd\n", "pmd-c01/id:3\n"}:         "ovs-vswitchd/pmd-c01/id:3",
		{"kworker/u8:2-flush", "kworker/u8:2-flush"}: "kworker/u8:2",
		{"vhost-812", "vhost-812"}:                   "vhost-812",
	} {
		if got := threadName(names[0], names[1]); got != want {
			t.Errorf("%q: %q, want %q", names, got, want)
		}
	}
}

// Where there are more threads than are read, the busiest are: not those that came first.
func TestThreadsBusiest(t *testing.T) {
	root := t.TempDir()
	start := func(process, seconds int) {
		file := filepath.Join(root, "proc", strconv.Itoa(process), "task", strconv.Itoa(process), "stat")
		text := strconv.Itoa(process) + " (a) b) S" + strings.Repeat(" 0", 18) + " " + strconv.Itoa(100*seconds) + " 0 0"
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	second := int(time.Second)
	fakeThread(t, root, 10, 10, "idle", "idle", 0)
	fakeThread(t, root, 11, 11, "once", "once", 100*second) // but it has been there for long
	fakeThread(t, root, 12, 12, "switch", "switch", 900*second)
	fakeThread(t, root, 13, 13, "load", "load", second/2)
	start(10, 0)
	start(11, 0)
	start(12, 0)
	start(13, 999)
	if err := os.WriteFile(filepath.Join(root, "proc/uptime"), []byte("1000.00 900.00\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := openThreads(Setup{Root: root, Arms: []Arm{{Name: "a"}, {Name: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.(*threads).limit = 2
	r := &Recorder{machine: "m1", arms: []Arm{{Name: "a"}, {Name: "b"}}}
	r.add("threads", s)
	defer r.Close()
	keys := func() string { return strings.Join(s.Keys(), " ") }
	r.Begin(0)
	if got := keys(); got != "switch#12 load#13" {
		t.Errorf("read are %s", got)
	}
	fakeThread(t, root, 12, 12, "switch", "switch", 901*second)
	r.End(0)
	// The load of the first arm is idle now, and makes room.
	fakeThread(t, root, 14, 14, "load", "load", second/2)
	start(14, 999)
	if err := os.RemoveAll(filepath.Join(root, "proc/13")); err != nil {
		t.Fatal(err)
	}
	r.Begin(1)
	if got := keys(); got != "switch#12 load#13 load#14" {
		t.Errorf("read are %s", got)
	}
	fakeThread(t, root, 14, 14, "load", "load", second)
	r.End(1)
	for _, m := range r.Meters() {
		if m.Arm == "b" && !maps.Equal(m.Values, map[string]int64{"load#14": int64(second / 2)}) {
			t.Errorf("b: %v", m.Values)
		}
		if !strings.Contains(m.Resolution, "only the 2 busiest threads") {
			t.Errorf("it is not told that threads are left out: %q", m.Resolution)
		}
	}
}

// A thread that was idle while other arms were measured makes room, and is found again when its own
// arm begins. What it used while it was not read is in no slice.
func TestThreadsOfLaterArm(t *testing.T) {
	root := t.TempDir()
	second := int(time.Second)
	for _, id := range []int{20, 21} {
		fakeThread(t, root, id, id, "load", "load", second)
	}
	if err := os.WriteFile(filepath.Join(root, "proc/uptime"), []byte("1000.00 900.00\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := openThreads(Setup{Root: root, Arms: []Arm{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.(*threads).limit = 2
	r := &Recorder{machine: "m1", arms: []Arm{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	r.add("threads", s)
	defer r.Close()
	run := func(arm, id, from int) {
		r.Begin(arm)
		fakeThread(t, root, id, id, "load", "load", from+second)
		r.End(arm)
	}
	run(0, 20, second)
	fakeThread(t, root, 22, 22, "idle", "idle", 0)
	run(1, 21, second) // which was idle until now
	fakeThread(t, root, 23, 23, "busy", "busy", 900*second)
	for i := range s.(*threads).list { // as if none had run for long: the busiest takes the place of one
		s.(*threads).list[i].runs, s.(*threads).list[i].firstSample = false, -idleSamples
	}
	fakeThread(t, root, 21, 21, "load", "load", 2*second)
	fakeThread(t, root, 20, 20, "load", "load", 5*second) // outside of any slice
	run(2, 20, 5*second)
	if got := slices.Sorted(slices.Values(s.Keys())); !slices.Equal(got, []string{"busy#23", "load#20", "load#21"}) {
		t.Errorf("read are %v", got)
	}
	for _, m := range r.Meters() {
		want := map[string]int64{"load#20": int64(second)}
		if m.Arm == "b" {
			want = map[string]int64{"load#21": int64(second)}
		}
		if !maps.Equal(m.Values, want) {
			t.Errorf("%s: %v, want %v", m.Arm, m.Values, want)
		}
	}
}

// A thread that spins during a slice is found by its name, and has most of that time.
func TestThreadThatSpins(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel does not tell the time of threads")
	}
	r, err := NewRecorder("m1", []string{"threads"}, Setup{Arms: []Arm{{Name: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	begin, began, done := make(chan bool), make(chan string), make(chan bool)
	go func() {
		runtime.LockOSThread()
		id, _ := os.Readlink("/proc/thread-self")
		began <- filepath.Base(id)
		<-begin
		for start := threadTime(t); threadTime(t)-start < 30*time.Millisecond; {
		}
		done <- true
		<-begin // of one that has ended nothing is to be read
	}()
	defer close(begin)
	id := <-began
	r.Begin(0)
	begin <- true
	<-done
	r.End(0)
	for key, ns := range r.Meters()[0].Values {
		if strings.HasSuffix(key, "#"+id) && ns > int64(20*time.Millisecond) { // a tick may be missing
			return
		}
	}
	t.Errorf("thread %s is not among %v", id, r.Meters()[0].Values)
}
