package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
)

// What may happen to a daemon and to its pins, under traffic of which nothing may
// be lost. The whole of it under load is bench's Lossless.

func configOf(arm lab.Arm) string { return filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json") }

// startDaemon starts another daemon on the first machine.
func startDaemon(t *testing.T, l *lab.Lab, arm lab.Arm, more ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	said := new(bytes.Buffer)
	cmd := exec.Command(testenv.Program(t)[0], append([]string{"fastpath", "--config", configOf(arm)}, more...)...)
	cmd.Stderr = said
	testenv.Must(t, host.Do(l.Machines[0].Namespace, cmd.Start))
	return cmd, said
}

func stopDaemon(t *testing.T, cmd *exec.Cmd, said *bytes.Buffer) {
	t.Helper()
	testenv.Must(t, cmd.Process.Signal(unix.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("daemon ended: %v, it said: %s", err, said)
	}
}

// killDaemon kills the first machine's daemon, and waits until it is dead.
func killDaemon(t *testing.T, l *lab.Lab, arm lab.Arm) {
	t.Helper()
	pid := findDaemon(t, l.Machines[0].Namespace, configOf(arm))
	testenv.Must(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "the daemon is dead", func() bool { return len(host.Reader{}.Command(pid)) == 0 })
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited %v in vain until %s", testenv.Timeout, what)
		}
	}
}

func attachedTo(t *testing.T, arm lab.Arm) (names []string) {
	t.Helper()
	files, err := bpf.Attached(arm.Pins[0])
	testenv.Must(t, err)
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	return names
}

// onEach runs a test on a fast path, and on those over IPIP and Geneve where the kernel has them.
func onEach(t *testing.T, path string, run func(*testing.T, *lab.Lab, lab.Arm)) {
	t.Helper()
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: withTunnels(path)})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) { run(t, l, arm) })
	}
}

// One daemon at a time serves a folder of pins; another is told so, and changes
// nothing. One that is to replace it does.
func TestFastPathOneDaemon(t *testing.T) { onEach(t, "routed+fast", checkOneDaemon) }

func checkOneDaemon(t *testing.T, l *lab.Lab, arm lab.Arm) {
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		first := findDaemon(t, l.Machines[0].Namespace, configOf(arm))
		second, said := startDaemon(t, l, arm)
		if err := second.Wait(); err == nil || !strings.Contains(said.String(), "another daemon holds these pins") {
			t.Fatalf("a second daemon ended with %v, and said: %s", err, said)
		}
		fastpathtest.WaitCarried(t, arm, exchange)
		heir, said := startDaemon(t, l, arm, "--replace")
		eventually(t, "the first daemon is gone", func() bool {
			testenv.Must(t, exchange(testenv.Timeout))
			return len(host.Reader{}.Command(first)) == 0
		})
		fastpathtest.WaitCarried(t, arm, exchange)
		stopDaemon(t, heir, said)
		if left := attachedTo(t, arm); len(left) > 0 {
			t.Errorf("left attached: %v", left)
		}
		testenv.Must(t, exchange(testenv.Timeout))
	})
}

// What another version has pinned, with other tables, is not taken over; and what
// is attached where nothing belongs is detached.
func TestFastPathOfAnotherVersion(t *testing.T) { onEach(t, "vxlan+fast", checkOtherVersion) }

func checkOtherVersion(t *testing.T, l *lab.Lab, arm lab.Arm) {
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx, by which it attaches a program")
	}
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		for _, another := range []bool{false, true} {
			fastpathtest.WaitCarried(t, arm, exchange)
			killDaemon(t, l, arm)
			before, stray := fastpathtest.CarriedPackets(t, arm), strayProgram(t, l, arm)
			if another {
				layout := filepath.Join(arm.Pins[0], "layout")
				testenv.Must(t, errors.Join(os.Remove(layout), os.Symlink("another", layout)))
			}
			next, said := startDaemon(t, l, arm)
			eventually(t, "what does not belong is detached", func() bool {
				testenv.Must(t, exchange(testenv.Timeout))
				_, err := os.Lstat(stray)
				return errors.Is(err, os.ErrNotExist)
			})
			eventually(t, "the next daemon counts on, or has begun anew", func() bool {
				testenv.Must(t, exchange(testenv.Timeout))
				stats, err := fastpath.ReadStats(arm.Pins[0])
				if another {
					return err == nil && stats[bpf.CarriedOut].Packets < before[0]
				}
				testenv.Must(t, err)
				return stats[bpf.CarriedOut].Packets > before[0]
			})
			fastpathtest.WaitCarried(t, arm, exchange)
			if another {
				stopDaemon(t, next, said)
				continue
			}
			t.Cleanup(func() { _ = next.Wait() })
		}
	})
}

// strayProgram attaches a program to a device on which it does not belong.
func strayProgram(t *testing.T, l *lab.Lab, arm lab.Arm) (pin string) {
	t.Helper()
	pin = filepath.Join(arm.Pins[0], "from_wire_1") // the loopback device
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	testenv.Must(t, err)
	defer fast.Close()
	testenv.Must(t, host.Do(l.Machines[0].Namespace, func() error {
		stray, err := link.AttachTCX(link.TCXOptions{Interface: 1, Program: fast.FromWire, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return err
		}
		defer stray.Close()
		return stray.Pin(pin)
	}))
	return pin
}

// A daemon whose folder of pins is taken away ends, and says so; the next one makes
// another.
func TestFastPathWithoutPins(t *testing.T) { onEach(t, "routed+fast", checkWithoutPins) }

func checkWithoutPins(t *testing.T, l *lab.Lab, arm lab.Arm) {
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		pid := findDaemon(t, l.Machines[0].Namespace, configOf(arm))
		testenv.Must(t, kernel.UnmountPins(filepath.Dir(arm.Pins[0])))
		eventually(t, "the daemon ends", func() bool {
			testenv.Must(t, exchange(testenv.Timeout))
			return len(host.Reader{}.Command(pid)) == 0
		})
		log, err := os.ReadFile(filepath.Join(filepath.Dir(arm.Pins[0]), "fast.log"))
		testenv.Must(t, err)
		if !strings.Contains(string(log), "it was removed or replaced") {
			t.Errorf("the daemon said: %s", log)
		}
		next, said := startDaemon(t, l, arm)
		eventually(t, "the next daemon carries", func() bool {
			testenv.Must(t, exchange(testenv.Timeout))
			stats, err := fastpath.ReadStats(arm.Pins[0])
			return err == nil && stats[bpf.CarriedIn].Packets > 0
		})
		// Somebody detaches a program: that is mended.
		mended := filepath.Join(arm.Pins[0], attachedTo(t, arm)[0])
		testenv.Must(t, os.Remove(mended))
		eventually(t, mended+" is attached again", func() bool {
			testenv.Must(t, exchange(testenv.Timeout))
			_, err := os.Lstat(mended)
			return err == nil
		})
		fastpathtest.WaitCarried(t, arm, exchange)
		stopDaemon(t, next, said)
	})
}

// A daemon that is held up for long, by a machine that swaps or somebody with a
// debugger, is as good as none; when it goes on, nothing holds that was learned
// before.
func TestFastPathHeldUp(t *testing.T) { onEach(t, "vxlan+fast", checkHeldUp) }

func checkHeldUp(t *testing.T, l *lab.Lab, arm lab.Arm) {
	const lease = 4 * time.Second // that it had when it was held up, at most
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		fastpathtest.WaitCarried(t, arm, exchange)
		pid := findDaemon(t, l.Machines[0].Namespace, configOf(arm))
		testenv.Must(t, unix.Kill(pid, unix.SIGSTOP))
		for ends := time.Now().Add(lease); time.Now().Before(ends); { // the flow may be slow for other reasons meanwhile
			testenv.Must(t, exchange(testenv.Timeout))
		}
		waitSlow(t, arm, exchange)
		before, err := fastpath.ReadStats(arm.Pins[0])
		testenv.Must(t, err)
		testenv.Must(t, unix.Kill(pid, unix.SIGCONT))
		fastpathtest.WaitCarried(t, arm, exchange)
		after, err := fastpath.ReadStats(arm.Pins[0])
		testenv.Must(t, err)
		// Its entry is seen to be stale, or was swept before the next packet came.
		again := uint64(0)
		for _, why := range []bpf.Count{bpf.SlowStale, bpf.SlowUnproven, bpf.SlowUnknown} {
			again += after[why].Packets - before[why].Packets
		}
		if again == 0 {
			t.Error("what was learned before is carried, and nothing was learned again")
			for why := range after {
				if n := after[why].Packets - before[why].Packets; n > 0 {
					t.Errorf("%v: %d packets meanwhile", bpf.Count(why), n)
				}
			}
		}
	})
}

// With a table of flows that is full, those that are not in it go slow, are counted as
// such, and nothing is lost.
func TestFastPathFull(t *testing.T) {
	requireFastPath(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths[:1]})
	arm := l.Arms[0]
	fill(t, arm.Pins[0])
	fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) {
		before := fastpathtest.CarriedPackets(t, arm)
		for range 200 {
			testenv.Must(t, exchange(testenv.Timeout))
		}
		if now := fastpathtest.CarriedPackets(t, arm); now[0] != before[0] {
			t.Errorf("a table that is full has taken a flow: %v carried, and %v before", now, before)
		}
		stats, err := fastpath.ReadStats(arm.Pins[0])
		testenv.Must(t, err)
		if stats[bpf.SlowFull].Packets == 0 || stats[bpf.PerDirection+bpf.SlowFull].Packets == 0 {
			t.Error("that there is no room is not counted both ways")
		}
	})
}

// fill fills the table of flows with some that nobody has, and that no sweep forgets
// while the test lasts.
func fill(t *testing.T, pins string) {
	t.Helper()
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "flows"), nil)
	testenv.Must(t, err)
	defer table.Close()
	const most = 1 << 14
	keys, flows := make([]bpf.FlowKey, most), make([]bpf.Flow, most)
	for i := range flows {
		flows[i].Used = 1 << 30 // a tick that is far away
	}
	for n := uint32(0); n <= 2*table.MaxEntries(); {
		for i := range keys {
			n++
			keys[i] = bpf.FlowKey{TenantProto: 0xff, Local: n}
		}
		_, err := table.BatchUpdate(keys, flows, nil)
		if errors.Is(err, unix.E2BIG) {
			return
		}
		testenv.Must(t, err)
	}
	t.Fatalf("there is always more room in %v", table)
}
