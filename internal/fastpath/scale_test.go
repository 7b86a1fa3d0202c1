package fastpath_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var scaleLimit = host.ScaleTimeout(30 * time.Second)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventuallyWithin(t, scaleLimit, what, ok)
}

func eventuallyWithin(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v, still not: %s", limit, what)
		}
	}
}

// However many flows there are, news of rules are heard at once: in the middle of a
// sweep, not behind it.
func TestNewsDuringSweep(t *testing.T) {
	const flows = 200_000
	netns, folder := testenv.Devices(t), t.TempDir()
	c := &fastpath.Config{
		Kind: fastpath.Routed, Devices: topology.DeviceNames{Wire: "veth1", Pods: []string{"veth0"}},
		Pins: filepath.Join(folder, "bpf"), State: filepath.Join(folder, "state"),
	}
	file := filepath.Join(folder, "config")
	must(t, c.Write(file))
	daemon := exec.Command(testenv.Program(t)[0], "fastpath", "--config", file)
	daemon.Stderr = t.Output()
	lifeline, err := daemon.StdinPipe()
	must(t, err)
	must(t, host.Do(netns, daemon.Start))
	defer func() {
		must(t, lifeline.Close())
		must(t, daemon.Wait())
		must(t, kernel.UnmountPins(folder))
	}()
	eventually(t, "the daemon is there", func() bool {
		_, err := fastpath.ReadState(c.State)
		return !errors.Is(err, os.ErrNotExist)
	})
	epoch := epochOf(t, c.Pins)
	fillSilent(t, c.Pins, flows)
	left := func() int {
		table, err := fastpath.ReadTable(c.Pins)
		must(t, err)
		return table.Flows
	}
	if n := left(); n != flows {
		t.Fatalf("there are %d flows, want %d", n, flows)
	}
	eventually(t, "the sweep has begun", func() bool { return left() < flows })
	before := epoch()
	allow := testenv.Forbid(t, netns)
	defer allow()
	eventually(t, "the new rule is heard", func() bool { return epoch() != before })
	if left() == 0 {
		t.Error("the sweep was over before the new rule was heard")
	}
	eventually(t, "the sweep is over", func() bool { return left() == 0 })
}

// fillSilent gives a fast path flows that have sent nothing for long.
func fillSilent(t *testing.T, pins string, n int) {
	t.Helper()
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, "flows"), nil)
	must(t, err)
	defer table.Close()
	keys, values := make([]bpf.FlowKey, n), make([]bpf.Flow, n)
	for i := range keys {
		keys[i] = bpf.NewFlowKey(0, 17, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 24), byte(i >> 16)}), uint16(i)),
			netip.MustParseAddrPort("10.8.0.1:53"))
		values[i] = bpf.Flow{Epoch: 1, Used: ^uint32(0) - 1000}
	}
	_, err = table.BatchUpdate(keys, values, nil)
	must(t, err)
}

// epochOf reads the epoch of policy of a fast path.
func epochOf(t *testing.T, pins string) func() uint32 {
	t.Helper()
	epoch := globalOf(t, pins, "epoch")
	return func() uint32 { return binary.NativeEndian.Uint32(epoch()) }
}

// globalOf reads one of the programs' globals.
func globalOf(t *testing.T, pins, name string) func() []byte {
	t.Helper()
	globals, err := ebpf.LoadPinnedMap(bpf.TableFile(pins, ".data"), nil)
	must(t, err)
	t.Cleanup(func() { globals.Close() })
	handle, err := globals.Handle()
	must(t, err)
	defer handle.Close()
	spec, err := handle.Spec(nil)
	must(t, err)
	var data *btf.Datasec
	must(t, spec.TypeByName(".data", &data))
	for _, v := range data.Vars {
		if v.Type.TypeName() == name {
			return func() []byte {
				all, err := globals.LookupBytes(uint32(0))
				must(t, err)
				return all[v.Offset : v.Offset+v.Size]
			}
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// When a pod's address goes to another pod before the first is gone, it stays with
// the other one.
func TestAddressHandedOn(t *testing.T) {
	testenv.Root(t)
	fast, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	must(t, err)
	defer fast.Close()
	addr := netip.MustParseAddr("10.0.0.1")
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 1}
	was, is := topology.LocalPod{Device: 10, Addr: addr, MAC: mac, Gateway: mac}, topology.LocalPod{Device: 20, Addr: addr, MAC: mac, Gateway: mac}
	tables := fastpath.NewTables(fast)
	for _, pods := range [][]topology.LocalPod{{was}, {was, is}, {is}} {
		must(t, tables.Sync(topology.Topology{Pods: pods}))
		var device uint32
		key := bpf.PodKey{Addr: bpf.NewPod(1, 0, 1500, addr, mac, mac).Addr}
		must(t, fast.PodAt.Lookup(key, &device))
		if want := pods[len(pods)-1].Device; int(device) != want {
			t.Errorf("it is at device %d, want %d", device, want)
		}
	}
}
