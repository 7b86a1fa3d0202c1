package fastpathtest

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/testenv"
)

// NodeState is what there is on a node that a fast path could change, one thing a line: devices,
// addresses, routes, neighbours, forwarding entries, queueing disciplines, filters, programs, rules
// without their counts, settings of the network and of connection tracking, and files of its own. netns is the file of
// the node's network namespace, and run runs a script of a shell on the node.
func NodeState(t testing.TB, netns string, run func(script string) string) string {
	t.Helper()
	text := strings.Builder{}
	text.Write(timers.ReplaceAll([]byte(run(nodeScript)), nil))
	testenv.InNetns(t, netns, func() error {
		links, err := net.Interfaces()
		if err != nil || !kernel.HasTCX() {
			return err
		}
		for _, l := range links {
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				found, err := link.QueryPrograms(link.QueryOptions{Target: l.Index, Attach: at})
				if err != nil {
					return fmt.Errorf("programs of %s: %w", l.Name, err)
				}
				fmt.Fprintf(&text, "%s %v: %d programs\n", l.Name, at, len(found.Programs))
			}
		}
		return nil
	})
	return text.String()
}

// WaitUsualRCU waits until grace periods of the whole machine are as long as usual. A fast path shortens them for
// moments, and so may those of other tests: they are no part of a node's state.
func WaitUsualRCU(t testing.TB) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(time.Millisecond) {
		text, err := os.ReadFile("/sys/kernel/rcu_expedited")
		testenv.Must(t, err)
		if strings.TrimSpace(string(text)) == "0" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, the kernel's grace periods are still shortened", testenv.Timeout)
		}
	}
}

// timers are what a bridge tells of times that pass by themselves.
var timers = regexp.MustCompile(`[a-z_]+_timer +[0-9.]+`)

// nodeScript leaves out what a bridge has learned, and what changes with traffic.
const nodeScript = `
	ip -d link; ip addr; ip route show table all; ip rule; ip neigh show nud permanent; bridge fdb | grep -v cni0
	tc -d qdisc show; nft --stateless list ruleset; ip xfrm policy
	for d in $(ip -o link | cut -d: -f2 | cut -d@ -f1); do tc filter show dev $d ingress; tc filter show dev $d egress; done
	grep -rs '' /proc/sys/net | grep -v '_count\|_max:\|_buckets\|stable_secret'
	grep -rs '' /sys/module/nf_conntrack/parameters
	own=` + node.Root + `/$(stat -Lc %i /proc/self/ns/net)
	grep $own /proc/self/mounts; ls -R $own /sys/fs/bpf 2>/dev/null
	true`
