package node_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// On nodes that are wired as CNI plugins do it, flows are carried between pods, and after the
// end the nodes are as before: ended by a signal, killed and undone, disabled by another process,
// and at the end of a trial.
func TestEnable(t *testing.T) {
	for _, w := range supportedWirings() {
		t.Run(w.name, w.checkEnable)
	}
}

func (w wiring) checkEnable(t *testing.T) {
	c := newCluster(t, w.node, w.pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange()) // now the neighbours are known
	before := [2]string{c.snapshot(t, 0), c.snapshot(t, 1)}
	first, second := c.enable(t, 0, "0"), c.enable(t, 1, "0")
	c.untilCarried(t, exchange)
	terminate(t, first)
	c.check(t, 0, before[0])
	testenv.Must(t, exchange())

	testenv.Must(t, second.Process.Kill())
	_ = second.Wait()
	testenv.Must(t, exchange())
	if s := c.status(t, 1); !s.Enabled || s.Running {
		t.Errorf("after it was killed: %+v", s)
	}
	testenv.Must(t, c.disable(t, 1))
	c.check(t, 1, before[1])
	testenv.Must(t, exchange())
	// What tests of other packages have there is not ours; folders of these nodes are in check.
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
		others, err := os.ReadDir(node.Root)
		if err != nil || len(others) > 0 {
			break
		}
		if time.Now().After(end) { // their daemons have it empty for an instant
			t.Fatalf("%s is left, and empty", node.Root)
		}
	}
}

// Another process disables it; one that was killed is followed by another; a trial ends by itself.
func TestEnableEnds(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := [2]string{c.snapshot(t, 0), c.snapshot(t, 1)}
	killed := c.enable(t, 0, "0")
	c.untilRunning(t, 0, true)
	testenv.Must(t, killed.Process.Kill())
	_ = killed.Wait()
	first, second := c.enable(t, 0, "0"), c.enable(t, 1, "0")
	c.untilCarried(t, exchange)
	testenv.Must(t, c.disable(t, 0))
	wait(t, first)
	c.check(t, 0, before[0])
	terminate(t, second)
	wait(t, c.enable(t, 1, "2s"))
	c.check(t, 1, before[1])
	testenv.Must(t, exchange())
}

// The tables of a node's fast path are found by its pods, also where its daemon has mounts of its
// own; and by no other namespace, nor when the daemon has ended.
func TestPinsOf(t *testing.T) {
	c := newCluster(t, wirings[1].node, wirings[1].pod)
	testenv.Must(t, c.flow(t)())
	other := testenv.Containers(t, 1500)[0].In.Path()
	find := func(want int) {
		t.Helper()
		for i, pod := range []string{c.pods[0].Path(), c.pods[1].Path(), c.nodes[1].Path(), other} {
			pins := node.PinsOf(pod)
			if (pins != "") != (i == want) {
				t.Errorf("namespace %d is in the hands of a fast path: %q", i, pins)
			}
			if pins == "" {
				continue
			}
			if _, err := fastpath.ReadStats(pins); err != nil {
				t.Error(err)
			}
			if _, err := fastpath.ReadState(fastpath.StateFile(pins)); err != nil {
				t.Error(err)
			}
		}
	}
	const none = -1
	find(none)
	for _, start := range []func() *exec.Cmd{func() *exec.Cmd { return c.enable(t, 0, "0") }, func() *exec.Cmd { return c.enableFilters(t, 0) }} {
		daemon := start()
		c.untilRunning(t, 0, true)
		find(0)
		testenv.Must(t, daemon.Process.Kill())
		_ = daemon.Wait()
		find(none)
		testenv.Must(t, c.disable(t, 0))
	}
}

// A process that is stopped cannot end by itself: it is killed, and everything is removed.
func TestDisableStopped(t *testing.T) {
	c := newCluster(t, wirings[1].node, wirings[1].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	stopped := c.enable(t, 0, "0")
	c.untilRunning(t, 0, true)
	testenv.Must(t, stopped.Process.Signal(syscall.SIGSTOP))
	c.untilOff(t, "its daemon has not renewed its lease")
	testenv.Must(t, c.disable(t, 0))
	if err := stopped.Wait(); err == nil {
		t.Error("the process has ended by itself")
	}
	c.check(t, 0, before)
	testenv.Must(t, exchange())
}

// Whether it was disabled is told from whether it has ended otherwise, also if both happen at once: then the
// one who disables it is obeyed.
func TestEnableTellsDisabled(t *testing.T) {
	c := newCluster(t, wirings[1].node, wirings[1].pod)
	testenv.Must(t, c.flow(t)())
	for _, by := range []struct{ signal, disable bool }{{true, false}, {false, true}, {true, true}} {
		var out bytes.Buffer
		cmd := c.startRole(t, 0, "enable", &out, new(syscall.SysProcAttr), "0")
		c.untilRunning(t, 0, true)
		c.untilOff(t, "")
		switch stop := filepath.Join(filepath.Dir(c.status(t, 0).Config.State), "stop"); {
		case by.signal && by.disable: // who disables a stopped process kills it
			testenv.Must(t, cmd.Process.Signal(syscall.SIGSTOP))
			testenv.Must(t, os.WriteFile(stop, nil, 0o600))
			testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
			testenv.Must(t, cmd.Process.Signal(syscall.SIGCONT))
		case by.signal:
			testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		default:
			testenv.Must(t, c.disable(t, 0))
		}
		testenv.Must(t, cmd.Wait())
		if want := fmt.Sprintln("disabled:", by.disable); !strings.HasSuffix(out.String(), want) {
			t.Errorf("%+v: it said %q, want %q", by, &out, want)
		}
	}
}

// A pod that is made anew, and a peer that is told anew, are carried again without a word.
func TestEnableFollows(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	first, second := c.enable(t, 0, "0"), c.enable(t, 1, "0")
	c.untilCarried(t, exchange)
	if m := c.metrics(t, 0); m["venturi_fastpath_carrying IPv4"] != 1 || m["venturi_fastpath_pods IPv4"] != 1 || m["venturi_fastpath_peers IPv4"] != 1 || m["venturi_fastpath_packets_total IPv4 carried_out"] < 100 {
		t.Errorf("metrics: %v", m)
	}
	c.checkEpoch(t, 0)
	testenv.Shell(t, c.nodes[0].Path(), "ip link del veth0; ip link add name veth9 type veth peer name eth0 netns "+c.pods[0].Name()+"; ip link set veth9 up master cni0")
	testenv.Shell(t, c.pods[0].Path(), "ip link set eth0 up mtu 1450; ip addr add 10.244.1.2/24 dev eth0; ip route add default via 10.244.1.1")
	c.untilCarried(t, exchange)
	testenv.Shell(t, c.nodes[0].Path(), "ip link set flannel.1 down; ip link set flannel.1 up; ip neigh replace 10.244.2.0 lladdr 02:00:00:00:cc:02 dev flannel.1 nud permanent; ip route replace 10.244.2.0/24 via 10.244.2.0 dev flannel.1 onlink")
	c.untilCarried(t, exchange)
	terminate(t, first, second)
}

// checkEpoch changes the rules of a node, which says that this has begun one epoch.
func (c *cluster) checkEpoch(t *testing.T, i int) {
	t.Helper()
	const name = "venturi_fastpath_epochs_total rules IPv4"
	before := c.metrics(t, i)[name]
	testenv.Shell(t, c.nodes[i].Path(), "nft add table ip some")
	now := before
	for end := time.Now().Add(testenv.Timeout); now == before && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		now = c.metrics(t, i)[name]
	}
	testenv.InNetns(t, c.nodes[i].Path(), func() error {
		s, err := node.ReadStatus()
		delayed := err == nil && s.State.Epochs.Counts["delay"] > 0 // the audit was late, as this machine is busy
		if err == nil && (now != before+1 || s.State.Epochs.Last != topology.Rules && !delayed) {
			t.Errorf("%v epochs by rules after %v, with a change of them; the node says %+v", now, before, s.State.Epochs)
		}
		return err
	})
}

// tunnelAnew makes the tunnel of a node of the first wiring anew, with another VNI and UDP port.
const tunnelAnew = `
	ip link del flannel.1
	ip link add flannel.1 address 02:00:00:00:cc:0I mtu 1450 type vxlan id VNI dstport PORT local 192.0.10.I dev eth0 nolearning
	ip addr add 10.244.I.0/32 dev flannel.1
	ip link set flannel.1 up
	ip neigh add 10.244.J.0 lladdr 02:00:00:00:cc:0J dev flannel.1 nud permanent
	bridge fdb add 02:00:00:00:cc:0J dev flannel.1 dst 192.0.10.J
	ip route add 10.244.J.0/24 via 10.244.J.0 dev flannel.1 onlink`

// A tunnel that is made anew is followed, whatever its VNI. With another UDP port it is refused,
// and says why: the programs are loaded for one port.
func TestEnableFollowsTunnel(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	anew := func(vni, port string) {
		t.Helper()
		for i, n := range c.nodes {
			testenv.Shell(t, n.Path(), strings.NewReplacer("I", fmt.Sprint(i+1), "J", fmt.Sprint(2-i), "VNI", vni, "PORT", port).Replace(tunnelAnew))
		}
		testenv.Must(t, exchange())
	}
	processes := []*exec.Cmd{c.enable(t, 0, "0"), c.enable(t, 1, "0")}
	c.untilCarried(t, exchange)
	anew("7", "8472")
	c.untilCarried(t, exchange)
	anew("7", "4789")
	for i := range c.nodes {
		c.untilRefused(t, i, "flannel.1", "uses UDP port 4789, and the fast path was enabled for port 8472")
	}
	var before, after [2]uint64
	before[0], before[1] = c.carried(t, 0)
	for range 100 {
		testenv.Must(t, exchange())
	}
	if after[0], after[1] = c.carried(t, 0); after != before {
		t.Errorf("carried packets were %v, and are %v", before, after)
	}
	anew("1", "8472")
	c.untilCarried(t, exchange)
	for _, cmd := range processes {
		terminate(t, cmd)
	}
}

// untilRefused waits until the daemon of a node leaves a device slow, with a reason.
func (c *cluster) untilRefused(t *testing.T, i int, device, reason string) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		s := c.status(t, i)
		if s.State != nil && slices.ContainsFunc(s.State.Refused, func(r topology.Refusal) bool { return r.Device == device && strings.Contains(r.Reason, reason) }) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, node %d has not refused %s (%s): %+v", testenv.Timeout, i, device, reason, s.State)
		}
	}
}

// When a daemon is killed whose mounts were its own, its pins are gone with them. The filters and
// the clsacts that it has added are found and removed all the same, also one that an earlier version has added.
func TestUndoOfFilters(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	first, second := c.enableFilters(t, 0), c.enableFilters(t, 1)
	for i := range c.nodes { // while clsact is added, the kernel may drop a packet
		c.untilRunning(t, i, true)
	}
	c.untilCarried(t, exchange)
	testenv.Must(t, first.Process.Kill())
	_ = first.Wait()
	if left := c.snapshot(t, 0); !strings.Contains(left, "qdisc clsact") || !strings.Contains(left, topology.OwnFilterPrefix) || strings.Contains(left, "table_flows") {
		t.Errorf("left are not filters without their pins:\n%s", left)
	}
	c.recordClsact(t, 0, "eth0")
	testenv.Must(t, exchange())
	testenv.Must(t, c.disable(t, 0))
	c.check(t, 0, before)
	testenv.Must(t, exchange())
	terminate(t, second)
}

// recordClsact leaves the clsact of a device as earlier versions did: without a mark, and with a record.
func (c *cluster) recordClsact(t *testing.T, i int, device string) {
	t.Helper()
	testenv.Shell(t, c.nodes[i].Path(), "tc qdisc change dev "+device+" clsact; ln -s made "+c.clsactRecord(t, i)+"$(ip -o link show "+device+" | cut -d: -f1)")
}

// clsactRecord begins the names of these records.
func (c *cluster) clsactRecord(t *testing.T, i int) string {
	t.Helper()
	id, err := host.ID(c.nodes[i].Path())
	testenv.Must(t, err)
	return filepath.Join(node.Root, strconv.FormatUint(id.Ino, 10), "clsact_")
}

// A second one is refused while the first lives, and changes nothing.
func TestEnableTwice(t *testing.T) {
	c := newCluster(t, wirings[1].node, wirings[1].pod)
	testenv.Must(t, c.flow(t)())
	first := c.enable(t, 0, "0")
	c.untilRunning(t, 0, true)
	second := c.enable(t, 0, "0")
	if err := second.Wait(); err == nil {
		t.Error("a second one was let in")
	}
	if !c.status(t, 0).Running {
		t.Error("the first one has gone")
	}
	terminate(t, first)
}

// metrics are those of a node, by name and the values of their labels: the family, and of packets the outcome.
func (c *cluster) metrics(t *testing.T, i int) map[string]float64 {
	t.Helper()
	out := make(chan prometheus.Metric, 200)
	testenv.InNetns(t, c.nodes[i].Path(), func() error {
		new(node.Metrics).Collect(out)
		return nil
	})
	close(out)
	r := prometheus.NewRegistry()
	testenv.Must(t, r.Register(collected(out)))
	families, err := r.Gather()
	testenv.Must(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				if l.GetName() != "reason" {
					name += " " + l.GetValue()
				}
			}
			values[name] += m.Gauge.GetValue() + m.Counter.GetValue()
		}
	}
	return values
}

// collected are metrics that were collected before, in another namespace.
type collected <-chan prometheus.Metric

func (collected) Describe(chan<- *prometheus.Desc) {}

func (c collected) Collect(out chan<- prometheus.Metric) {
	for m := range c {
		out <- m
	}
}

// terminate ends processes by a signal, one after the other.
func terminate(t *testing.T, processes ...*exec.Cmd) {
	t.Helper()
	for _, cmd := range processes {
		testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		wait(t, cmd)
	}
}

// wait waits until a process has ended by itself.
func wait(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	stuck := time.AfterFunc(testenv.Timeout, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	testenv.Must(t, cmd.Wait())
}

// untilRunning waits until the daemon of a node says that it carries pods.
func (c *cluster) untilRunning(t *testing.T, i int, running bool) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		s := c.status(t, i)
		if s.Running == running && s.State != nil && s.State.Pods > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %+v", testenv.Timeout, s)
		}
	}
}
