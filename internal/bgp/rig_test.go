package bgp_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

const (
	asn  = 64512
	long = 30 * time.Second // a wait that only a hang exceeds
	poll = 10 * time.Millisecond

	protoBGP  = 186 // RTPROT_BGP
	protoBIRD = 12  // RTPROT_BIRD
)

// rig is a few machines on one link, with nothing on them yet.
type rig struct {
	t      *testing.T
	fabric *netcfg.Namespace
	hosts  []*netcfg.Namespace // machine i has address addr(i)
	folder string
}

func newRig(t *testing.T, machines int) *rig {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	open := func(rest string) *netcfg.Namespace {
		n, err := w.Create(w.Name(rest))
		testenv.Must(t, err)
		t.Cleanup(n.Close)
		return n
	}
	r := &rig{t: t, fabric: open("fabric"), folder: t.TempDir()}
	testenv.Must(t, r.fabric.AddBridge("br0", nil, 1500))
	for i := range machines {
		m := open(fmt.Sprintf("m%d", i+1))
		port := fmt.Sprintf("port%d", i)
		testenv.Must(t, netcfg.AddVeth(
			netcfg.VethEnd{In: m, Name: "wire0"}, netcfg.VethEnd{In: r.fabric, Name: port}, 1500))
		testenv.Must(t, r.fabric.Enslave(port, "br0", false))
		testenv.Must(t, m.AddAddr("wire0", netip.PrefixFrom(addr(i), 24)))
		r.hosts = append(r.hosts, m)
	}
	return r
}

func addr(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 200, 0, byte(i + 1)}) }

// block is the n-th block of machine i.
func block(i, n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 245, byte(i), byte(n * 64)}), 26)
}

// config is that of a speaker on machine i which announces its first block and
// speaks with the others: it dials those below it and waits for those above.
func (r *rig) config(i int, others ...int) *bgp.Config {
	c := &bgp.Config{
		ASN: asn, RouterID: addr(i), Listen: netip.AddrPortFrom(addr(i), 179),
		Announce: []netip.Prefix{block(i, 0)}, Hold: 3,
		State: filepath.Join(r.folder, fmt.Sprintf("speaker%d.json", i)),
	}
	for _, o := range others {
		c.Neighbours = append(c.Neighbours, bgp.Neighbour{Address: addr(o), ASN: asn, Passive: o > i})
	}
	return c
}

// speak starts a speaker on machine i, which ends with the test.
func (r *rig) speak(i int, c *bgp.Config) *netcfg.Child {
	r.t.Helper()
	name := strings.TrimSuffix(c.State, ".json")
	testenv.Must(r.t, c.Write(name+".config"))
	_ = os.Remove(c.State) // that of the one before it
	return r.start(i, filepath.Base(name)+".log", append(testenv.RoleCommand(r.t, "speaker"), "--config", name+".config")...)
}

// start starts a program on machine i, which ends with the test. What it said
// is shown if the test fails.
func (r *rig) start(i int, log string, args ...string) *netcfg.Child {
	r.t.Helper()
	log = filepath.Join(r.folder, log)
	child, err := r.hosts[i].Start(netcfg.Command{Args: args, Log: log})
	testenv.Must(r.t, err)
	r.t.Cleanup(func() {
		child.Stop(2 * time.Second)
		if text, _ := os.ReadFile(log); r.t.Failed() {
			r.t.Logf("%s said:\n%s", filepath.Base(log), text)
		}
	})
	return child
}

// bird starts a real BIRD on machine i. Its protocols are added to what every
// one has here: the blocks that it announces are static, and what it learns
// goes to its kernel.
func (r *rig) bird(i int, protocols string) *netcfg.Child {
	r.t.Helper()
	statics := ""
	for n := range 2 {
		statics += fmt.Sprintf("\troute %s blackhole;\n", block(i, n))
	}
	conf := r.birdConf(i)
	testenv.Must(r.t, os.WriteFile(conf, fmt.Appendf(nil, `router id %s;
log stderr all;
protocol device { scan time 1; }
protocol kernel { ipv4 { export where source != RTS_STATIC; import none; }; }
protocol static { ipv4;
%s}
template bgp ours {
	local %s as %d;
	hold time 3;
	keepalive time 1;
	connect delay time 1;
	connect retry time 1;
	error wait time 1, 1;
	direct;
	ipv4 { import all; export all; };
}
%s`, addr(i), statics, addr(i), asn, protocols), 0o600))
	return r.start(i, fmt.Sprintf("bird%d.log", i), birdProgram(r.t, "bird"), "-f", "-c", conf,
		"-s", r.control(i), "-P", filepath.Join(r.folder, fmt.Sprintf("bird%d.pid", i)))
}

func (r *rig) birdConf(i int) string { return filepath.Join(r.folder, fmt.Sprintf("bird%d.conf", i)) }

// editBIRD changes a text in the config of the BIRD of machine i, and makes it
// read that.
func (r *rig) editBIRD(i int, old, by string) {
	r.t.Helper()
	conf, err := os.ReadFile(r.birdConf(i))
	testenv.Must(r.t, err)
	testenv.Must(r.t, os.WriteFile(r.birdConf(i), []byte(strings.Replace(string(conf), old, by, 1)), 0o600))
	r.birdc(i, "configure")
}

func (r *rig) control(i int) string { return filepath.Join(r.folder, fmt.Sprintf("bird%d.ctl", i)) }

// birdc asks the BIRD of machine i.
func (r *rig) birdc(i int, words ...string) string {
	r.t.Helper()
	out, err := exec.Command(birdProgram(r.t, "birdc"), append([]string{"-s", r.control(i)}, words...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("birdc %s: %v: %s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

// birdProgram finds a program of BIRD: where Debian puts it is not on every PATH.
func birdProgram(t *testing.T, name string) string {
	t.Helper()
	for _, file := range []string{name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(file); err == nil {
			return found
		}
	}
	t.Fatalf("there is no %s: install bird2; these tests are not skipped for want of it", name)
	return ""
}

// routes lists the routes of machine i that a protocol installed, as
// "10.245.1.0/26 via 10.200.0.2".
func (r *rig) routes(i, protocol int) []string {
	r.t.Helper()
	var list []string
	testenv.InNetns(r.t, r.hosts[i].Path(), func() error {
		routes, err := host.Routes(protocol)
		for _, route := range routes {
			list = append(list, fmt.Sprintf("%s via %s", route.Dst, route.Via))
		}
		return err
	})
	slices.Sort(list)
	return list
}

// awaitRoutes waits until the routes of machine i are those.
func (r *rig) awaitRoutes(i, protocol int, want ...string) {
	r.t.Helper()
	slices.Sort(want)
	await(r.t, fmt.Sprintf("routes %v on machine %d", want, i), func() (bool, any) {
		got := r.routes(i, protocol)
		return slices.Equal(got, want), got
	})
}

// routeVia is a route to the n-th block of machine i.
func routeVia(i, n int) string { return fmt.Sprintf("%s via %s", block(i, n), addr(i)) }

// state reads what a speaker says of itself; an empty one if it has not begun.
func state(c *bgp.Config) *bgp.State {
	s, err := bgp.ReadState(c.State)
	if err != nil {
		return &bgp.State{}
	}
	return s
}

// awaitState waits until what a speaker says of itself is as it should be.
func awaitState(t *testing.T, what string, c *bgp.Config, ok func(*bgp.State) bool) *bgp.State {
	t.Helper()
	var s *bgp.State
	await(t, what, func() (bool, any) {
		s = state(c)
		return ok(s), fmt.Sprintf("%+v", *s)
	})
	return s
}

func await(t *testing.T, what string, look func() (ok bool, seen any)) {
	t.Helper()
	var seen any
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(poll) {
		var ok bool
		if ok, seen = look(); ok {
			return
		}
	}
	t.Fatalf("waited %v for %s; at last: %v", long, what, seen)
}
