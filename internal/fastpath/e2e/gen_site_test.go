package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// genPace is how long to wait between rounds.
const genPace = 2 * time.Millisecond

// genSettle is for how long nothing is sent after a change: by then the daemons know of
// it, so that twins have sent the same when it takes hold.
var genSettle = host.ScaleTimeout(200 * time.Millisecond)

// genPath is a path in a generated case. Those without a fast path have an even number,
// their twins the next.
type genPath struct {
	lab.Arm
	number             int // among those of its version of IP
	isFast             bool
	words              [2]*strings.Replacer // by the machine that a case is played on
	flows              []sockets
	knockFrom, knockAt int
	knockTo            unix.Sockaddr
	conn               connection
}

// genSite is the lab that generated cases are played in.
type genSite struct {
	lab       *lab.Lab
	four, six []*genPath // the paths over each version of IP
	paths     []*genPath // of the case: one of these
	firewalls []string
	clean     [2]string // what the machines have when no case is played
	programs  string    // folder
	played    int
	dirty     bool              // a case could not be taken back
	words     *strings.Replacer // of the case
	tcp       bool              // the case has connections, and they are open
}

func newGenSite(t *testing.T) *genSite { return newGenSiteBeside(t, -1, genPathsHere()) }

// genPathsHere are the fast paths for generated cases, of which the first is the one with IPv6.
func genPathsHere() []string {
	fast := withTunnels(basicFastPaths...)
	if !slices.Contains(fast, "routed+fast") {
		fast = slices.Insert(fast, 0, "routed+fast")
	}
	return fast
}

// newGenSiteBeside is one in which a machine has no fast path; -1: both have.
func newGenSiteBeside(t *testing.T, plain int, fast []string) *genSite {
	beside := func(l *lab.Lab) *lab.Lab {
		if plain >= 0 {
			return besidePlain(t, l, plain)
		}
		return l
	}
	l := testenv.Lab(t, lab.Options{Paths: twins(fast)})
	s := &genSite{lab: l, four: genPaths(t, beside(l)), programs: genPrograms(t)}
	s.six = genPaths(t, beside(withIPv6(t, l, false)))
	addSecondHops(t, l)
	s.firewalls = firewalls(t, l, slices.Concat(s.four, s.six))
	for i := range s.clean {
		s.clean[i] = s.snapshot(t, i)
	}
	return s
}

// genPaths are the arms of a lab.
func genPaths(t *testing.T, l *lab.Lab) (paths []*genPath) {
	for n, arm := range l.Arms {
		p := &genPath{Arm: arm, number: n, isFast: len(arm.Pins) > 0}
		for i := range p.words {
			p.words[i] = placeholders(t, l, n, i)
		}
		paths = append(paths, p)
	}
	return paths
}

// genPrograms pins programs that cases attach, and gives the folder.
func genPrograms(t *testing.T) (folder string) {
	folder = t.TempDir()
	testenv.Must(t, unix.Mount("generated", folder, "bpf", 0, ""))
	t.Cleanup(func() { testenv.Must(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	random := asm.Instructions{ // drops three quarters
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 3),
		asm.JEq.Imm(asm.R0, 0, "through"),
		asm.Mov.Imm(asm.R0, 2), // BPF_DROP
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("through"),
		asm.Return(),
	}
	priority := asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 32, asm.Word), // skb->priority
		asm.LoadMem(asm.R3, asm.R1, 36, asm.Word), // skb->ingress_ifindex
		asm.Mov.Imm(asm.R0, 0),
		asm.JNE.Imm(asm.R3, 0, "out"),
		asm.JNE.Imm(asm.R2, 6, "out"), // TC_PRIO_INTERACTIVE
		asm.Mov.Imm(asm.R0, 0x10001),  // class 1:1
		asm.Return().WithSymbol("out"),
	}
	for name, spec := range map[string]*ebpf.ProgramSpec{
		"lossy":       {Type: ebpf.LWTXmit, Instructions: random},
		"through":     {Type: ebpf.LWTIn, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}},
		"through_out": {Type: ebpf.LWTOut, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}},
		"drop":        {Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()}},
		"pass":        {Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}},
		"by_priority": {Type: ebpf.SchedCLS, Instructions: priority},
	} {
		spec.Name, spec.License = "generated", "GPL"
		p, err := ebpf.NewProgram(spec)
		testenv.Must(t, err)
		testenv.Must(t, p.Pin(filepath.Join(folder, name)))
		testenv.Must(t, p.Close())
	}
	return folder
}

// snapshot is what cases change on a machine.
func (s *genSite) snapshot(t *testing.T, i int) string {
	t.Helper()
	var text []byte
	testenv.Must(t, host.Do(s.lab.Machines[i].Namespace, func() (err error) {
		text, err = exec.Command("sh", "-euc", "nft list tables; ip rule; ip -6 rule; ip -o link show type bridge | wc -l; ip nexthop; ip xfrm policy; bridge fdb | grep dst || true; tc qdisc | grep -v clsact || true; "+
			"for v in -4 -6; do ip $v route show table all | grep -v linkdown | sort; done; nsenter --net="+s.firewalls[i]+" nft list tables").CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		return err
	}))
	return string(text)
}

// scripts gives what a production does on the paths of the site. A paragraph that is the
// same for several paths is done once.
func (s *genSite) scripts(c generated, p production, script string) (scripts []string) {
	for _, path := range s.paths {
		if !isFor(p.path, path.Path) {
			continue
		}
		for paragraph := range strings.SplitSeq(path.words[c.machine].Replace(s.words.Replace(script)), "\n\n") {
			if paragraph != "" && !slices.Contains(scripts, paragraph) {
				scripts = append(scripts, paragraph)
			}
		}
	}
	return scripts
}

// run runs scripts on the case's machine.
func (s *genSite) run(c generated, scripts []string) error {
	if len(scripts) == 0 {
		return nil
	}
	return host.Do(s.lab.Machines[c.machine].Namespace, func() error { return runScript(strings.Join(scripts, "\n")) })
}

// do makes a machine have productions; what cannot be done is an error.
func (s *genSite) do(c generated, productions ...production) error {
	var scripts []string
	for _, p := range productions {
		scripts = append(scripts, s.scripts(c, p, p.do)...)
	}
	return s.run(c, scripts)
}

// undo takes them back, as far as they have been done.
func (s *genSite) undo(t *testing.T, c generated) {
	t.Helper()
	scripts := []string{"set +e"}
	for _, p := range slices.Backward(append(c.setup[:len(c.setup):len(c.setup)], c.change)) {
		scripts = append(scripts, s.scripts(c, p, p.undo)...)
	}
	testenv.Must(t, s.run(c, append(scripts, "true")))
	now := s.snapshot(t, c.machine)
	if s.dirty = now != s.clean[c.machine]; s.dirty {
		t.Fatalf("%s: not all is taken back; now there is\n%s\nand before\n%s", c.name, now, s.clean[c.machine])
	}
}

// ports is the first of the case's ports.
func (s *genSite) ports() int { return firstGenPort + s.played%genPortBlocks*portsPerCase }

// prepare gives a case its words and sockets.
func (s *genSite) prepare(t *testing.T, c generated) {
	s.played++
	if s.paths = s.four; c.inet6 {
		s.paths = s.six
	}
	ports := s.ports()
	s.words = strings.NewReplacer(append(familyWords(c.inet6), "{fw}", s.firewalls[c.machine], "{bpf}", s.programs, "{sport}", strconv.Itoa(ports),
		"{dport}", strconv.Itoa(ports+remoteFlowPort), "{knock}", strconv.Itoa(ports+knockPort))...)
	for _, p := range s.paths {
		p.open(t, c, ports)
	}
}
