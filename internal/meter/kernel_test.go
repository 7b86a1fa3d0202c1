package meter

import (
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Root is testenv.Root. The test environment stands on packages that use this
// one, so only tests outside of it can import it.
var Root func(testing.TB)

// UnnamedNetns is testenv.UnnamedNetns, in the same way.
var UnnamedNetns func(testing.TB) string

// openThisTick opens the exact source, which a kernel may lack for a reason
// that is not ours to fail for.
func openThisTick(t testing.TB) (*tick, *stat) {
	t.Helper()
	Root(t)
	s, err := openStat("/", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	k, err := openTick(s)
	if err != nil {
		if _, noTypes := os.Stat("/sys/kernel/btf/vmlinux"); noTypes != nil {
			t.Skipf("this kernel does not describe its types: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { k.close() })
	return k, s
}

// pinned runs fn on a thread that stays on one core.
func pinned(t *testing.T, core int, fn func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine, and its pinning with it
		var set unix.CPUSet
		set.Set(core)
		err := unix.SchedSetaffinity(0, &set)
		if err == nil {
			fn()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Errorf("pin to core %d: %v", core, err)
	}
}

// TestBusyLoopIsBusy: while a thread spins on a core, that core is not idle
// for 1 % of the time, whoever else wants it.
func TestBusyLoopIsBusy(t *testing.T) {
	k, _ := openThisTick(t)
	for i, core := range k.cores() {
		before, after := make([]cpuTimes, len(k.list)), make([]cpuTimes, len(k.list))
		var err, err2 error
		pinned(t, core, func() {
			err = k.read(before)
			for start := time.Now(); time.Since(start) < 100*time.Millisecond; {
			}
			err2 = k.read(after)
		})
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		wall, busy := after[i].now-before[i].now, active(after[i])-active(before[i])
		if busy < wall*95/100 || busy > wall { // a hypervisor does not tell all that it takes
			t.Errorf("core %d: busy or stolen for %v of %v", core, time.Duration(busy), time.Duration(wall))
		}
	}
}

// TestDutyCycle: while a thread that works and sleeps in turn ran, its core was
// not idle, and the idle time is that of /proc/stat, which is as exact inside
// the kernel but cut to 10 ms.
func TestDutyCycle(t *testing.T) {
	k, s := openThisTick(t)
	n := len(k.list)
	fine, before, after := [2][]cpuTimes{}, [2][]cpuTimes{}, [2][]cpuTimes{}
	for i := range 2 {
		fine[i], before[i], after[i] = make([]cpuTimes, n), make([]cpuTimes, n), make([]cpuTimes, n)
	}
	// One between two of the other: the thread may have to wait anywhere.
	read := func(i int) {
		if err := errors.Join(s.read(before[i]), k.read(fine[i]), s.read(after[i])); err != nil {
			t.Error(err)
		}
	}
	var ran time.Duration
	pinned(t, k.list[0], func() {
		read(0)
		began := threadTime(t)
		for range 100 {
			for start := threadTime(t); threadTime(t)-start < 2*time.Millisecond; {
			}
			unix.Nanosleep(&unix.Timespec{Nsec: int64(2 * time.Millisecond)}, nil)
		}
		ran = threadTime(t) - began
		read(1)
	})
	// What the hypervisor took while the thread ran may be in the thread's time,
	// and is in steal instead of busy.
	if awake := time.Duration(active(fine[1][0]) - active(fine[0][0])); awake < ran*99/100 {
		t.Errorf("core %d was not idle for %v while a thread ran on it for %v", k.list[0], awake, ran)
	}
	for i, core := range k.list {
		exact := fine[1][i].idle - fine[0][i].idle
		least, most := before[1][i].idle-after[0][i].idle, after[1][i].idle-before[0][i].idle
		const slack = 3 * userTick // two counters, each cut at both ends
		if exact < least-slack || exact > most+slack {
			t.Errorf("core %d: idle for %v, by /proc/stat for %v to %v", core, time.Duration(exact), time.Duration(least), time.Duration(most))
		}
	}
}

// active is the time in which a core was not idle, whether it ran or the
// hypervisor did not let it.
func active(c cpuTimes) int64 { return c.busy() + c.class[classSteal] }

// threadTime is how long this thread has run.
func threadTime(t *testing.T) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Error(err)
	}
	return time.Duration(ts.Nano())
}

// TestTimesOnlyGrow reads without a pause while every core goes in and out of
// idle: its idle time never goes back and never grows faster than the clock,
// whether the core is in idle at that moment, enters or leaves it. A core that
// the hypervisor stops between reading the clock and noting it is late by that
// once in a while, and not each time that this looks; a stretch of idle counted
// twice, or not at all, shows in every look.
func TestTimesOnlyGrow(t *testing.T) {
	const doze = 500 * time.Microsecond
	k, _ := openThisTick(t)
	for _, core := range k.list {
		stop := make(chan struct{})
		var dozing sync.WaitGroup
		dozing.Go(func() {
			pinned(t, core, func() {
				for {
					select {
					case <-stop:
						return
					default:
						unix.Nanosleep(&unix.Timespec{Nsec: int64(doze)}, nil)
					}
				}
			})
		})
		defer dozing.Wait()
		defer close(stop)
	}
	var wrong []error
	for len(wrong) < 3 {
		err := onlyGrows(k, 500*time.Millisecond, doze/2)
		if err == nil {
			return
		}
		wrong = append(wrong, err)
	}
	t.Error(errors.Join(wrong...))
}

// onlyGrows reads for a while, and tells of the first idle time that is off by
// more than slack.
func onlyGrows(k *tick, length, slack time.Duration) error {
	last, now := make([]cpuTimes, len(k.list)), make([]cpuTimes, len(k.list))
	if err := k.read(last); err != nil {
		return err
	}
	for start := time.Now(); time.Since(start) < length; {
		if err := k.read(now); err != nil {
			return err
		}
		for c := range now {
			idle, wall := now[c].idle-last[c].idle, now[c].now-last[c].now
			if idle < -int64(slack) || idle > wall+int64(slack) {
				return fmt.Errorf("core %d: idle grew by %d ns in %d ns", k.list[c], idle, wall)
			}
		}
		last, now = now, last
	}
	return nil
}

// TestNamespacesAreApart: the counters are those of the arm's own namespace,
// and re-reading needs no second visit.
func TestNamespacesAreApart(t *testing.T) {
	busy, calm := UnnamedNetns(t), UnnamedNetns(t)
	arms := []Arm{
		{Name: "busy", Ends: []string{busy}, Crossed: []string{busy}},
		{Name: "calm", Ends: []string{calm}, Crossed: []string{calm}},
		{Name: "both", Ends: []string{calm, busy}, Crossed: []string{calm, busy}},
	}
	r, err := NewRecorder("m1", Names(), Setup{Arms: arms})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const datagrams = 10
	for arm := range arms {
		r.Begin(arm)
		inNetns(t, busy, func() error {
			for i := range datagrams {
				c, err := net.Dial("udp4", fmt.Sprint("127.0.0.1:", 9000+i))
				if err != nil {
					return err
				}
				c.Write([]byte("nobody is here"))
				c.Close()
			}
			return nil
		})
		r.End(arm)
	}
	got := map[string]int64{}
	for _, m := range r.Meters() {
		if strings.Contains(m.Resolution, "not read") {
			t.Errorf("%s of %s: %s", m.Name, m.Arm, m.Resolution)
		}
		for key, v := range m.Values {
			got[m.Arm+" "+key] = v
		}
	}
	for key, want := range map[string]int64{
		"busy udp/out_datagrams": datagrams, "busy udp/no_port": datagrams,
		"calm udp/out_datagrams": 0, "calm udp/no_port": 0, "both udp/no_port": datagrams,
		"busy tcp/retransmits": 0, "busy links/tx_dropped": 0,
	} {
		if v, ok := got[key]; !ok || v != want {
			t.Errorf("%s: %d (there: %v), want %d", key, v, ok, want)
		}
	}
	// Steal is booked at ticks, and may be more than so short a time.
	if got["busy busy"]+got["busy steal"] <= 0 {
		t.Errorf("sending took no CPU time: %d, steal %d", got["busy busy"], got["busy steal"])
	}
}

// TestMissingNamespace leaves no file open; the leak check sees it if not.
func TestMissingNamespace(t *testing.T) {
	for _, name := range []string{"tcp", "udp", "links"} {
		arms := []Arm{{Ends: []string{""}, Crossed: []string{""}}, {Ends: []string{"/nowhere"}, Crossed: []string{"/nowhere"}}}
		if r, err := NewRecorder("m1", []string{name}, Setup{Arms: arms}); err == nil {
			r.Close()
			t.Errorf("%s opened a namespace that is not there", name)
		}
	}
	if err := host.Do("/nowhere", func() error { return nil }); err == nil {
		t.Error("the test's namespace exists")
	}
}

// BenchmarkSample is what a meter costs at each end of a slice.
func BenchmarkSample(b *testing.B) {
	Root(b)
	for _, entry := range Table {
		b.Run(entry.Name, func(b *testing.B) {
			s, err := entry.Open(Setup{Root: "/", Arms: []Arm{{Ends: []string{""}, Crossed: []string{""}}}})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			if some, ok := s.(growing); ok {
				if err := some.Refresh(); err != nil {
					b.Fatal(err)
				}
			}
			b.Log(s.Resolution())
			dst := make([]int64, len(s.Keys()))
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Sample(0, dst); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen is what all meters cost per series.
func BenchmarkOpen(b *testing.B) {
	Root(b)
	for b.Loop() {
		r, err := NewRecorder("m1", Names(), Setup{Arms: []Arm{{Ends: []string{""}, Crossed: []string{""}}}})
		if err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
}

// inNetns runs fn inside a namespace, given by its file.
func inNetns(t *testing.T, namespace string, fn func() error) {
	t.Helper()
	if err := host.Do(namespace, fn); err != nil {
		t.Fatal(err)
	}
}
