package knob_test

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// tree is the qdiscs of a device as its setting holds them.
func tree(t *testing.T, b bench, on knob.Target) string {
	t.Helper()
	scope, err := on.Scope()
	if err != nil {
		t.Fatal(err)
	}
	v, err := b.m.Settings.Read(setting.QdiscSetting(scope))
	if err != nil {
		t.Fatal(err)
	}
	return v.String()
}

// Whatever waits before a device comes back with its handle and parameters, or
// as the kernel's own if it was that.
func TestQdiscIsMadeAgain(t *testing.T) {
	netns, ip := space(t)
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	ip("tc", "qdisc", "add", "dev", "va", "clsact") // is none of it
	for _, c := range []struct{ before, to string }{
		{"", "pfifo"},
		{"root noqueue", "pfifo"},
		{"root handle 5: pfifo limit 123", "bfifo"},
		{"root handle 7000: pfifo limit 123", "bfifo"},
		{"root pfifo_fast", "noqueue"},
		{"root handle 1: mq", "pfifo"},
		{"root handle 1: mq; parent 1:2 handle 20: bfifo limit 5000", "pfifo"},
		{"root handle 1: mq; parent 1:1 handle 7800: pfifo limit 7; parent 1:4 pfifo limit 9", "bfifo"},
		{"root handle 6: fq_codel limit 777 target 7ms ce_threshold 3ms", "pfifo"},
		{"root handle 6: codel limit 777 target 3ms interval 33ms ecn", "pfifo"},
		{"root handle 6: fq limit 777 maxrate 1gbit refill_delay 30ms", "pfifo"},
		{"root handle 1: mq; parent 1:2 handle 20: fq_codel; parent 1:3 fq", "pfifo"},
		{"root pfifo limit 7", "fq"},
		{"root handle 1: mq", "fq_codel"},
	} {
		var missing string
		for step := range strings.SplitSeq(c.before, "; ") {
			if step == "" {
				continue
			}
			args := append([]string{"-n", n(netns), "qdisc", "replace", "dev", "va"}, strings.Fields(step)...)
			if out, err := exec.Command("tc", args...).CombinedOutput(); strings.Contains(string(out), "unknown") {
				missing = string(out)
			} else if err != nil {
				t.Fatalf("%s: %v: %s", step, err, out)
			}
		}
		before := tree(t, b, on)
		err := b.set("nic.qdisc", on, c.to)
		switch {
		case missing != "" || errors.Is(err, errors.ErrUnsupported):
			t.Logf("%s, and %s: this kernel lacks one", c.before, c.to)
		case err != nil:
			t.Errorf("%s, and then %s: %v", c.before, c.to, err)
		case b.get("nic.qdisc", on) != c.to:
			t.Errorf("%s, and then %s: it is %s", c.before, c.to, b.get("nic.qdisc", on))
		}
		b.undo()
		if after := tree(t, b, on); after != before {
			t.Errorf("%s, and %s undone:\n%s, want\n%s", c.before, c.to, after, before)
		}
		if c.before != "" && missing == "" {
			ip("tc", "qdisc", "del", "dev", "va", "root")
		}
	}
	ip("tc", "qdisc", "del", "dev", "va", "clsact") // it is still there
}

// n is the name of a namespace as ip has it.
func n(netns string) string { return netns[strings.LastIndex(netns, "/")+1:] }

// A write of several queues that was killed in between is known by its handle,
// and so is its undo; what somebody else made there is not touched.
func TestQdiscHalfWay(t *testing.T) {
	netns, ip := space(t)
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	replace := func(what string) {
		ip(append([]string{"tc", "qdisc", "replace", "dev", "va"}, strings.Fields(what)...)...)
	}
	for _, c := range []struct {
		name  string
		state []string
		ours  bool
	}{
		{"of the write, after the first call", []string{"root handle 7000: mq"}, true},
		{"of the write, after the second call", []string{"root handle 7000: mq", "parent 7000:1 handle 7001: pfifo"}, true},
		{"of the undo, after the first call", []string{"root handle 1: mq"}, true},
		{"of the undo, after the second call", []string{"root handle 1: mq", "parent 1:2 handle 20: bfifo limit 5000"}, true},
		{"somebody's root", []string{"root handle 3: mq"}, false},
		{"somebody's leaf", []string{"root handle 7000: mq", "parent 7000:1 handle 7001: pfifo limit 3"}, false},
		{"somebody's root that is no mq", []string{"root handle 7000: pfifo"}, false},
	} {
		replace("root handle 1: mq")
		replace("parent 1:2 handle 20: bfifo limit 5000")
		replace("parent 1:3 handle 30: bfifo limit 6000")
		before := tree(t, b, on)
		if err := b.set("nic.qdisc", on, "pfifo"); err != nil {
			t.Fatal(err)
		}
		ip("tc", "qdisc", "del", "dev", "va", "root")
		for _, step := range c.state {
			replace(step)
		}
		found := tree(t, b, on)
		j, err := journal.Open(b.options)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var conflict *journal.ConflictError
		for _, o := range outcomes {
			if c.ours && o.Err != nil || !c.ours && !errors.As(o.Err, &conflict) {
				t.Errorf("%s: %v", c.name, o.Err)
			}
		}
		if after := tree(t, b, on); c.ours && after != before || !c.ours && after != found {
			t.Errorf("%s: %s, before %s, found %s", c.name, after, before, found)
		}
		if _, err := j.Undo(nil, journal.UndoOptions{Leave: true}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		ip("tc", "qdisc", "del", "dev", "va", "root")
	}
}

// The kernel's own come back to devices that it gives a queue: one, or mq.
func TestQdiscOfTheKernel(t *testing.T) {
	netns, ip := space(t)
	b := onRoot(t)
	for device, queues := range map[string]string{"ifb1": "1", "ifb4": "4"} {
		if out, err := exec.Command("ip", "-n", n(netns), "link", "add", device, "numtxqueues", queues, "type", "ifb").CombinedOutput(); err != nil {
			t.Skipf("this kernel has no ifb: %s", out)
		}
		ip("link", "set", device, "up")
		on := knob.Target{Netns: netns, Device: device}
		before := tree(t, b, on)
		if !strings.Contains(before, `"handle":"0:"`) || (queues == "4") != strings.Contains(before, `"mq"`) {
			t.Fatalf("%s has %s", device, before)
		}
		b.turns("nic.qdisc", on, "pfifo", "pfifo")
		if after := tree(t, b, on); after != before {
			t.Errorf("%s has %s, want %s", device, after, before)
		}
		// Taken down meanwhile, there is no queue of the kernel's to go back to.
		if err := b.set("nic.qdisc", on, "bfifo"); err != nil {
			t.Fatal(err)
		}
		ip("link", "set", device, "down")
		j, err := journal.Open(b.options)
		if err != nil {
			t.Fatal(err)
		}
		for _, why := range []string{"bring it up", "when it comes up"} {
			outcomes, err := j.Undo(nil, journal.UndoOptions{})
			if err != nil || len(outcomes) != 1 || outcomes[0].Err == nil || !strings.Contains(outcomes[0].Err.Error(), why) {
				t.Errorf("undone while it is down: %+v, %v", outcomes, err)
			}
			_ = exec.Command("tc", "-n", n(netns), "qdisc", "del", "dev", device, "root").Run() // then it shows none
		}
		j.Close()
		ip("link", "set", device, "up")
		b.undo()
		if after := tree(t, b, on); after != before {
			t.Errorf("%s has %s, want %s", device, after, before)
		}
	}
}

// A qdisc that cannot be made again counts packets where it tells its options:
// what goes out before, during and after a change, and while it is undone, is no
// difference.
func TestQdiscThatCounts(t *testing.T) {
	netns, ip := space(t)
	ip("addr", "add", "192.0.2.1/24", "dev", "va")
	ip("neigh", "add", "192.0.2.2", "lladdr", "02:00:00:00:00:01", "dev", "va")
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	for _, qdiscs := range [][]string{
		{"root handle 8: htb default 1"},
		{"root handle 8: mq", "parent 8:1 handle 81: htb", "parent 8:2 handle 82: htb", "parent 8:3 handle 83: htb", "parent 8:4 handle 84: htb"},
	} {
		for _, qdisc := range qdiscs {
			ip(append([]string{"tc", "qdisc", "replace", "dev", "va"}, strings.Fields(qdisc)...)...)
		}
		undoneWhileSending(t, b, on)
		ip("tc", "qdisc", "del", "dev", "va", "root")
	}
}

// undoneWhileSending changes the MTU and undoes that, while packets go out that
// the device's qdisc counts.
func undoneWhileSending(t *testing.T, b bench, on knob.Target) {
	t.Helper()
	before, counted := tree(t, b, on), direct(t, on)
	stop := sending(t, on.Netns)
	err := b.set("nic.mtu", on, "1350")
	for end := time.Now().Add(host.ScaleTimeout(10 * time.Second)); err == nil && direct(t, on) == counted; {
		if time.Now().After(end) {
			err = fmt.Errorf("no packet was counted in %s", counted)
		}
	}
	if err == nil {
		err = undone(b)
	}
	stop()
	if err != nil {
		t.Error(err)
	}
	if after := tree(t, b, on); after != before || direct(t, on) == counted {
		t.Errorf("%s and %s, before %s and %s", after, direct(t, on), before, counted)
	}
}

// sending has datagrams sent from a namespace until stop is called.
func sending(t *testing.T, netns string) (stop func()) {
	t.Helper()
	var socket net.Conn
	testenv.InNetns(t, netns, func() (err error) {
		socket, err = net.Dial("udp", "192.0.2.2:9")
		return err
	})
	var sender sync.WaitGroup
	ended := make(chan struct{})
	sender.Go(func() {
		for {
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Microsecond):
				_, _ = socket.Write([]byte("counted")) // the queue may be full
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(ended)
		sender.Wait()
		socket.Close()
	})
	t.Cleanup(stop)
	return stop
}

// direct is what tc shows of the packets without a class that a device has sent.
func direct(t *testing.T, on knob.Target) string {
	t.Helper()
	out, err := exec.Command("tc", "-n", n(on.Netns), "qdisc", "show", "dev", on.Device).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Join(regexp.MustCompile(`direct_packets_stat \S+`).FindAllString(string(out), -1), ", ")
}

// undone undoes all, and tells what went wrong.
func undone(b bench) error {
	j, err := journal.Open(b.options)
	if err != nil {
		return err
	}
	defer j.Close()
	outcomes, err := j.Undo(nil, journal.UndoOptions{})
	if err == nil && len(outcomes) == 0 {
		err = errors.New("there was nothing to undo")
	}
	for _, o := range outcomes {
		err = errors.Join(err, o.Err)
	}
	return err
}
