package discover_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	vnl "github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// leastRefusals is how many wirings any kernel can build.
const leastRefusals = 30

// What the fast path must not touch is named, each with its reason. A daemon that carries the rest
// attaches nothing there, and leaves nothing behind.
func TestRefusesWirings(t *testing.T) {
	testenv.Root(t)
	if n := checkRefusals(t, slices.Concat(refusals, refusals6)); n < leastRefusals {
		t.Errorf("%d wirings were built, want %d at least", n, leastRefusals)
	}
}

// So are wirings of modules, all of them. It runs under kernels that have them.
func TestRefusesModules(t *testing.T) {
	testenv.Root(t)
	if !agenttest.InGuest() {
		t.Skip("is not in a machine whose kernel has modules")
	}
	rows := slices.DeleteFunc(slices.Clone(refusals), func(c refusal) bool { return !c.modules })
	if n := checkRefusals(t, rows); n < len(rows) {
		t.Errorf("%d of %d wirings were built", n, len(rows))
	}
}

// So is a program at a hook of netfilter, which no other row may meet.
func TestNetfilterPrograms(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsNobodyBeside(t)
	checkRefusals(t, []refusal{{name: "a program at a hook of netfilter", attach: netfilterProgram, what: "off", reason: "netfilter"}})
}

// checkRefusals checks wirings, and tells how many this kernel could build.
func checkRefusals(t *testing.T, wirings []refusal) int {
	daemon := testenv.RoleCommand(t, "fastpath")
	w := newWriter(t)
	var built atomic.Int32
	t.Run("all", func(t *testing.T) {
		for i, c := range wirings {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t, w, i)
				c.build(t, s)
				built.Add(1)
				p := s.plan(t, c.family)
				c.checkPlan(t, p)
				before := s.devicesWithClsact(t)
				// To verify the programs of all takes 15 s of CPU time, and an emulated one takes minutes.
				served := agenttest.InFull() || i%4 == 0 || i%2 == 0 && !agenttest.InShortGuest()
				if p.Off == "" && !c.waits && served {
					s.serve(t, daemon, p, func() (bool, error) { return checkAttached(p, s.programs(t)) })
				}
				if left := s.programs(t); len(left) > 0 {
					t.Errorf("programs are left: %v", left)
				}
				if after := s.devicesWithClsact(t); !slices.Equal(after, before) {
					t.Errorf("devices %v have a clsact, before it was %v", after, before)
				}
			})
		}
	})
	return int(built.Load())
}

// Wirings that this machine's kernel has no devices for are refused under others.
func TestKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.PassUnderKernels(t, 2<<10, agenttest.RunArgs("TestFindsWirings|TestRefusesModules"))
}

// build wires a node, or skips the test.
func (c refusal) build(t *testing.T, s *site) {
	t.Helper()
	base := c.base
	if base == "" {
		base = flannel
	}
	err := s.sh(base + "\n" + c.script)
	if err == nil && c.attach != nil {
		err = c.attach(t, s)
	}
	if errors.Is(err, errUnsupported) {
		t.Skip(err)
	}
	testenv.Must(t, err)
}

// checkPlan checks that the plan refuses what it must, and nothing else.
func (c refusal) checkPlan(t *testing.T, p *discover.Plan) {
	t.Helper()
	outlook, reason := answer(p, c.what)
	want := discover.Slow
	if c.waits {
		want = discover.Waiting
	}
	if outlook != want || !strings.Contains(reason, c.reason) {
		t.Errorf("%s: %q, %q; want %q, %q\n%+v", c.what, outlook, reason, want, c.reason, p)
	}
	if c.what == "off" && p.CarriesAny() || p.CarriesAll() != c.waits {
		t.Errorf("carries any: %v, all: %v", p.CarriesAny(), p.CarriesAll())
	}
	others := 0
	for _, pod := range p.Pods {
		if pod.Device != c.what && pod.Outlook != discover.Slow {
			others++
		}
	}
	if c.what == "veth2" && !strings.Contains(c.reason, "cni0") && others == 0 {
		t.Errorf("the other pod is not carried: %+v", p.Pods)
	}
}

// checkAttached checks that the fast path has programs, by device, only where it carries. It tells
// whether it has all.
func checkAttached(p *discover.Plan, programs map[string]int) (all bool, err error) {
	all = true
	want := map[string]bool{}
	for _, pod := range p.Pods {
		want[pod.Device] = pod.Outlook == discover.Carried
	}
	for _, peer := range p.Peers {
		if peer.Outlook != discover.Carried {
			continue
		}
		want[p.Wire] = p.Kind != fastpath.VXLAN6 // whose wire, to the programs, is the tunnel
		if out := cmp.Or(peer.Device, p.Tunnel); out != "" {
			want[out] = true
		}
	}
	for device, wanted := range want {
		all = all && (!wanted || programs[device] > 0)
	}
	for device := range programs {
		if !want[device] {
			return false, fmt.Errorf("a program is attached to %s, which is left alone: %v", device, programs)
		}
	}
	return all, nil
}

// serve runs the daemon of a plan until all is attached.
func (s *site) serve(t *testing.T, daemon []string, p *discover.Plan, attached func() (all bool, err error)) {
	t.Helper()
	folder, c := t.TempDir(), p.Config()
	c.Pins, c.State = filepath.Join(folder, "bpf"), filepath.Join(folder, "state")
	file := filepath.Join(folder, "config")
	testenv.Must(t, c.Write(file))
	cmd := exec.Command(daemon[0], append(daemon[1:], "--config", file)...)
	cmd.Stderr = t.Output()
	lifeline, err := cmd.StdinPipe()
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, kernel.UnmountPins(folder)) })
	testenv.Must(t, host.Do(s.node.Path(), cmd.Start))
	ended := false
	end := func() error {
		if ended {
			return nil
		}
		ended = true
		return errors.Join(lifeline.Close(), cmd.Wait())
	}
	t.Cleanup(func() { testenv.Must(t, end()) })
	pods, peers := count(p.Pods, func(pod discover.PlannedPod) bool { return pod.Outlook == discover.Carried }),
		count(p.Peers, func(peer discover.PlannedPeer) bool { return peer.Outlook == discover.Carried })
	var state *fastpath.State
	for limit := time.Now().Add(testenv.Timeout); ; time.Sleep(2 * time.Millisecond) {
		all, err := attached()
		testenv.Must(t, err)
		state, err = fastpath.ReadState(c.State)
		if all && err == nil && state.Off == "" && state.Waiting == 0 && state.Pods == pods && state.Peers >= peers {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("after %v the daemon says %+v, %v; want %d pods and %d peers", testenv.Timeout, state, err, pods, peers)
		}
	}
	testenv.Must(t, end())
	if pins, err := bpf.Attached(c.Pins); err != nil || len(pins) > 0 {
		t.Errorf("pins are left: %v, %v", pins, err)
	}
}

func count[T any](all []T, is func(T) bool) (n int) {
	for _, one := range all {
		if is(one) {
			n++
		}
	}
	return n
}

// Parents of the filters of clsact: TC_H_MIN_INGRESS and TC_H_MIN_EGRESS below TC_H_CLSACT.
var filterParents = []uint32{0xfffffff2, 0xfffffff3}

// programs counts the programs of a fast path, by the device that they are attached to.
func (s *site) programs(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	testenv.InNetns(t, s.node.Path(), func() error {
		links, err := vnl.LinkList()
		if err != nil {
			return err
		}
		for _, l := range links {
			ids, err := attachedTo(l.Attrs().Index)
			if err != nil {
				return err
			}
			for _, id := range ids {
				own, err := kernel.IsFastPath(id)
				if err != nil {
					return err
				}
				if own {
					found[l.Attrs().Name]++
				}
			}
		}
		return nil
	})
	return found
}

// attachedTo lists the programs that are attached to a device by tcx or as filters.
func attachedTo(device int) (ids []ebpf.ProgramID, err error) {
	for _, parent := range filterParents {
		filters, err := topology.BPFFilters(device, parent)
		if err != nil {
			return nil, err
		}
		for _, f := range filters {
			ids = append(ids, ebpf.ProgramID(f.Program))
		}
	}
	if !kernel.HasTCX() {
		return ids, nil
	}
	for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
		list, err := link.QueryPrograms(link.QueryOptions{Target: device, Attach: at})
		if err != nil {
			return nil, err
		}
		for _, p := range list.Programs {
			ids = append(ids, p.ID)
		}
	}
	return ids, nil
}

// devicesWithClsact lists them by index.
func (s *site) devicesWithClsact(t *testing.T) (devices []int) {
	t.Helper()
	testenv.InNetns(t, s.node.Path(), func() (err error) {
		devices, err = topology.DevicesWithClsact()
		return err
	})
	return devices
}

// closeAfter closes something after the test.
func closeAfter(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() { testenv.Must(t, c.Close()) })
}

// answer is what a plan says of something.
func answer(p *discover.Plan, of string) (discover.Outlook, string) {
	if of == "off" && p.Off != "" {
		return discover.Slow, p.Off
	}
	for _, pod := range p.Pods {
		if pod.Device == of {
			return pod.Outlook, pod.Reason
		}
	}
	for _, peer := range p.Peers {
		if peer.Addr.String() == of {
			return peer.Outlook, peer.Reason
		}
	}
	for _, l := range p.LeftAlone {
		if "left "+l.Device == of {
			return discover.Slow, l.Reason
		}
	}
	return "", "it is not in the plan"
}
