package fastpath_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/testenv"
)

// BenchmarkNode tells how long a daemon takes, from its start, until it carries a first pod's
// packets and all pods', also one that replaces another, and what it takes while nothing happens.
func BenchmarkNode(b *testing.B) {
	for _, pods := range []int{1, 50, 200, 1000} {
		for _, kind := range []string{fastpath.Routed, fastpath.VXLAN} {
			b.Run(fmt.Sprintf("%s/pods=%d", kind, pods), func(b *testing.B) { benchmarkNode(b, kind, pods) })
		}
	}
}

func benchmarkNode(b *testing.B, kind string, pods int) {
	n := newNode(b, kind, pods, pods)
	n.awaitCarriers(b)
	for b.Loop() {
		b.StopTimer()
		begin := time.Now()
		s := n.serve(b)
		first := n.carryingFirst(b, begin)
		b.ReportMetric(float64(ran(b, s.Process.Pid).Milliseconds()), "cpu-ms/first")
		_, all := n.carrying(b, begin)
		b.ReportMetric(float64(first.Milliseconds()), "ms/first")
		b.ReportMetric(float64(all.Milliseconds()), "ms/all")
		begin = time.Now()
		next := n.serve(b, "--replace")
		must(b, s.Wait())
		eventually(b, "the next daemon has begun", func() bool { return n.state().Off != "" })
		_, all = n.carrying(b, begin)
		b.ReportMetric(float64(all.Milliseconds()), "ms/replaced")
		measureIdle(b, next)
		begin = time.Now()
		next.end(b)
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/end")
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op")
}

// awaitCarriers waits until all devices are up and the kernel has announced it: 100 of them a second.
func (n *node) awaitCarriers(t testing.TB) {
	t.Helper()
	limit := patience + time.Duration(len(n.Devices.Pods))*patience/100
	for _, namespace := range []string{n.netns.Path(), n.pods.Name()} {
		eventuallyWithin(t, limit, "all devices are up", func() bool {
			time.Sleep(100 * time.Millisecond)
			var all []vnl.Link
			testenv.InNetns(t, namespace, func() (err error) {
				all, err = vnl.LinkList()
				return err
			})
			return !slices.ContainsFunc(all, func(l vnl.Link) bool { return l.Type() == "veth" && l.Attrs().OperState != vnl.OperUp })
		})
		awaitSilence(t, namespace, limit)
	}
}

// awaitSilence waits until the kernel announces no more of a namespace's devices. A list of them has
// their states before it announces these.
func awaitSilence(t testing.TB, namespace string, limit time.Duration) {
	t.Helper()
	const silence = 2 * time.Second // it announces once a second
	announced, done := make(chan vnl.LinkUpdate), make(chan struct{})
	testenv.InNetns(t, namespace, func() error { return vnl.LinkSubscribe(announced, done) })
	for end, some := time.After(limit), true; some; {
		select {
		case <-announced:
		case <-end:
			t.Fatalf("after %v, the kernel still announces devices", limit)
		case <-time.After(silence):
			some = false
		}
	}
	close(done)
	for range announced { // until it is closed
	}
}

// carrying waits until a node carries packets of its first pod, and of all.
func (n *node) carrying(t testing.TB, begin time.Time) (first, all time.Duration) {
	t.Helper()
	first = n.carryingFirst(t, begin)
	eventuallyWithin(t, patience+time.Duration(len(n.Devices.Pods))*patience/100, "every pod's packets are carried", func() bool {
		s := n.state()
		return s.Off == "" && s.Waiting == 0 && s.Pods == len(n.Devices.Pods)
	})
	return first, time.Since(begin)
}

// carryingFirst waits until a node carries packets of its first pod.
func (n *node) carryingFirst(t testing.TB, begin time.Time) time.Duration {
	t.Helper()
	eventually(t, "packets are carried", func() bool { s := n.state(); return s.Off == "" && s.Pods > 0 })
	return time.Since(begin)
}

// measureIdle measures the CPU time of an idle daemon.
func measureIdle(b *testing.B, s *serving) {
	const settle, during = 3 * time.Second, 20 * time.Second
	time.Sleep(settle)
	before := ran(b, s.Process.Pid)
	time.Sleep(during)
	b.ReportMetric(100*(ran(b, s.Process.Pid)-before).Seconds()/during.Seconds(), "idle-%")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))
	must(b, err)
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	kB, err := strconv.Atoi(strings.Fields(rss)[0])
	must(b, err)
	b.ReportMetric(float64(kB)/1024, "MiB")
}

// ran is for how long all threads of a process have had a core.
func ran(t testing.TB, pid int) (total time.Duration) {
	t.Helper()
	folder := fmt.Sprintf("/proc/%d/task", pid)
	threads, err := os.ReadDir(folder)
	must(t, err)
	for _, thread := range threads {
		text, err := os.ReadFile(folder + "/" + thread.Name() + "/schedstat")
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(t, err)
		ns, err := strconv.Atoi(strings.Fields(string(text))[0])
		must(t, err)
		total += time.Duration(ns)
	}
	return total
}
