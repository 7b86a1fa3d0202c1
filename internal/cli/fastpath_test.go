package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// emptyNode is a network namespace with a journal of its own, on a kernel that has the fast path.
func emptyNode(t *testing.T) (*netcfg.Writer, *netcfg.Namespace) {
	t.Helper()
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	t.Setenv("VENTURI_JOURNAL", t.TempDir()+"/journal")
	return testenv.Namespace(t)
}

// The exit code of a plan tells whether all of it is carried, some, or nothing, and enable
// changes nothing in the last case.
func TestFastpathPlanCodes(t *testing.T) {
	w, n := emptyNode(t)
	run := func(want int, args ...string) (out string) {
		t.Helper()
		var text bytes.Buffer
		cmd := exec.Command("venturi", append([]string{"fastpath"}, args...)...)
		cmd.Stdout, cmd.Stderr = &text, t.Output()
		code, err := 0, cmd.Run()
		if ended := new(exec.ExitError); errors.As(err, &ended) {
			code = ended.ExitCode()
		} else {
			testenv.Must(t, err)
		}
		if code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", args, code, want, &text)
		}
		return text.String()
	}
	if out := run(verr.Missing, "plan", "--netns", n.Path()); !strings.Contains(out, "nothing is carried: ") {
		t.Errorf("of an empty namespace: %s", out)
	}
	wirePods(t, w, n)
	var plan discover.Plan
	testenv.Must(t, json.Unmarshal([]byte(run(verr.OK, "plan", "-n", n.Path(), "--json")), &plan))
	if plan.Wire != "eth0" || len(plan.Pods) != 2 || len(plan.Peers) != 1 || plan.Pods[0].Outlook != discover.Carried || plan.Counters.Veths != 2 || plan.Counters.Rules.Number != 0 {
		t.Errorf("planned %+v, with %+v", plan, plan.Counters)
	}
	run(verr.OK, "plan", "-n", n.Path(), "--keep-counters")
	run(verr.Usage, "plan", "--keep-counters", "conntrack")
	testenv.Shell(t, n.Path(), "nft 'table ip acct { chain c { type filter hook forward priority 0; counter; }; }'")
	for _, c := range []struct {
		code int
		flag string
		says string
	}{
		{verr.OK, "--keep-counters=none", "1 that count or log: ip acct c handle 2\n"},
		{verr.OK, "--keep-counters=conntrack,iptables", "1 that count or log: ip acct c handle 2\n"},
		{verr.Missing, "--keep-counters", "--keep-counters=rules is given, and established flows may reach rules that count or log (in ip acct c)\n"},
		{verr.Usage, "--keep-counters=devices", ""},
		{verr.Usage, "--keep-counters=", ""},
	} {
		if out := run(c.code, "plan", "-n", n.Path(), c.flag); !strings.Contains(out, c.says) {
			t.Errorf("plan %s: %s", c.flag, out)
		}
	}
	testenv.InNetns(t, n.Path(), func() error {
		run(verr.Missing, "enable", "--keep-counters")
		return nil
	})
	testenv.Shell(t, n.Path(), "nft delete table ip acct")
	testenv.Shell(t, n.Path(), "tc qdisc add dev cali2 root tbf rate 10mbit burst 100kb latency 1s")
	if out := run(verr.Findings, "plan", "-n", n.Path()); !strings.Contains(out, "has a queueing discipline tbf") {
		t.Errorf("with a limit: %s", out)
	}
	testenv.Shell(t, n.Path(), "tc qdisc add dev cali3 root tbf rate 10mbit burst 100kb latency 1s")
	run(verr.Missing, "plan", "-n", n.Path())
	testenv.InNetns(t, n.Path(), func() error {
		run(verr.Missing, "enable")
		run(verr.Usage, "enable", "--trial", "1ms")
		run(verr.Usage, "enable", "--shadow", "-1")
		run(verr.Usage, "enable", "--shadow-time", "1ms")
		run(verr.Usage, "enable", "--trial", "1m", "--shadow-time", "0")
		run(verr.Missing, "shadow")
		var found struct {
			Flows       *int
			Differences []shadow.Mismatch
		}
		testenv.Must(t, json.Unmarshal([]byte(run(verr.Missing, "shadow", "--json")), &found))
		if found.Flows == nil || found.Differences == nil || len(found.Differences) > 0 {
			t.Errorf("shadow --json found %+v", found)
		}
		run(verr.Usage, "shadow", "--time", "1ms")
		run(verr.Usage, "shadow", "--flows", "-1")
		if out := run(verr.OK, "status"); out != "there is no fast path here\n" {
			t.Errorf("status: %s", out)
		}
		run(verr.Missing, "stats")
		run(verr.Usage, "stats", "--top", "0")
		if out := run(verr.OK, "disable"); out != "there is no fast path here\n" {
			t.Errorf("disable: %s", out)
		}
		return nil
	})
}

// podWiring wires two pods and a peer to a node, as Calico does without encapsulation. Their own ends are in the
// namespace ENDS.
const podWiring = `
	echo 1 > /proc/sys/net/ipv4/ip_forward
	pair() {
		ip link add $1 type veth peer name o$1 address $2 netns ENDS
		ip link set $1 up
		ip -n ENDS link set o$1 up
	}
	pair eth0 02:00:00:00:aa:02
	ip addr add 192.0.2.1/24 dev eth0
	ip neigh add 192.0.2.2 lladdr 02:00:00:00:aa:02 dev eth0
	ip route add 10.244.2.0/24 via 192.0.2.2
	for i in 2 3; do
		pair cali$i 02:00:00:00:bb:0$i
		ip route add 10.244.0.$i/32 dev cali$i
		ip neigh add 10.244.0.$i lladdr 02:00:00:00:bb:0$i dev cali$i
		ip route add fd00:f4::$i/128 dev cali$i
		ip neigh add fd00:f4::$i lladdr 02:00:00:00:bb:0$i dev cali$i
	done
	ip addr add fd00:c8::1/64 dev eth0 nodad
	ip neigh add fd00:c8::2 lladdr 02:00:00:00:aa:02 dev eth0
	ip route add fd00:f5::/64 via fd00:c8::2
	echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
`

func wirePods(t *testing.T, w *netcfg.Writer, n *netcfg.Namespace) {
	t.Helper()
	ends, err := w.Create(w.Name("ends"))
	testenv.Must(t, err)
	t.Cleanup(ends.Close)
	testenv.Shell(t, n.Path(), strings.ReplaceAll(podWiring, "ENDS", ends.Name()))
}

// Enable compares for no longer than it is told to, carries then, and says of how many flows it has compared
// packets: here of none, as there is no traffic.
func TestFastpathShadowTime(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	var said bytes.Buffer
	carries := make(awaited, 1)
	running := startFastpath(t, n, io.MultiWriter(&said, carries), "enable", "--shadow", "2", "--shadow-time", "1s")
	t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() }) // if it has not ended below
	select {
	case <-carries:
	case <-time.After(testenv.Timeout):
		t.Fatalf("after %v, it does not carry", testenv.Timeout)
	}
	testenv.Must(t, running.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, running.Wait())
	if !strings.Contains(said.String(), "no IPv4 packets were compared: no flow") {
		t.Errorf("it said\n%s", &said)
	}
}

// A node without IPv4 carries IPv6 alone, and says why not more.
func TestFastpathIPv6Alone(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	testenv.Shell(t, n.Path(), "ip -4 addr flush scope global; ip -4 route flush table main")
	start := func(out, said io.Writer, args ...string) *exec.Cmd {
		cmd := exec.Command("venturi", append([]string{"fastpath"}, args...)...)
		cmd.Stdout, cmd.Stderr = out, said
		testenv.Must(t, host.Do(n.Path(), cmd.Start))
		return cmd
	}
	t.Cleanup(func() { testenv.Must(t, start(t.Output(), t.Output(), "disable").Wait()) })
	var out, said bytes.Buffer
	if err := start(&out, &said, "enable").Wait(); err == nil || !strings.Contains(out.String(), `"venturi fastpath plan --ipv6"`) {
		t.Errorf("without --ipv6: %v\n%s", err, &out)
	}
	out.Reset()
	carries := make(awaited, 1)
	running := start(&out, io.MultiWriter(&said, carries), "enable", "--ipv6", "--shadow", "0")
	t.Cleanup(func() { _ = running.Process.Kill(); _ = running.Wait() }) // if it has not ended below
	select {
	case <-carries:
	case <-time.After(testenv.Timeout):
		t.Fatalf("after %v, it does not carry", testenv.Timeout)
	}
	var status bytes.Buffer
	testenv.Must(t, start(&status, t.Output(), "status").Wait())
	if text := status.String(); !strings.HasPrefix(text, "no IPv4 is carried") || !strings.Contains(text, "\nIPv6:\ncarried: pods 2, peers 1\n") {
		t.Errorf("status: %s", text)
	}
	testenv.Must(t, running.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, running.Wait())
	if !strings.Contains(said.String(), "no IPv4 can be carried now") || !strings.Contains(out.String(), "nothing of it is left") {
		t.Errorf("it said\n%s\n%s", &said, &out)
	}
}

// A node that cannot carry IPv6 carries IPv4 alone, and says why.
func TestFastpathWithoutIPv6(t *testing.T) {
	for _, c := range []struct{ name, script, mount, want string }{
		{"switched off by the kernel's command line", "ip -6 addr flush scope global; ip -6 route flush table main", "mount -t tmpfs none /proc/sys/net/ipv6", "no IPv6 can be carried now"},
		{"its setting cannot be read", "", "mount --bind /proc/$$/mem /proc/sys/net/ipv6/conf/all/forwarding", "IPv4 is carried alone, because no IPv6 can be carried: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, n := emptyNode(t)
			wirePods(t, w, n)
			testenv.Shell(t, n.Path(), c.script)
			var said bytes.Buffer
			carries := make(awaited, 1)
			cmd := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", c.mount+" && exec venturi fastpath enable --ipv6 --shadow 0")
			cmd.Stderr = io.MultiWriter(&said, carries)
			testenv.Must(t, host.Do(n.Path(), cmd.Start))
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case <-carries:
				testenv.Must(t, cmd.Process.Signal(syscall.SIGTERM))
				testenv.Must(t, <-ended)
			case err := <-ended:
				t.Fatalf("it has ended: %v\n%s", err, &said)
			case <-time.After(testenv.Timeout):
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("after %v, it does not carry\n%s", testenv.Timeout, &said)
			}
			if !strings.Contains(said.String(), c.want) {
				t.Errorf("it said\n%s", &said)
			}
		})
	}
}

// The systemd unit has a limit of memory, and its options from a file; those that it names as an example exist.
func TestFastpathUnit(t *testing.T) {
	text, err := os.ReadFile("../../contrib/systemd/venturi-fastpath.service")
	testenv.Must(t, err)
	for _, line := range []string{"\nEnvironmentFile=-/etc/default/venturi-fastpath\n", "/venturi fastpath enable $OPTIONS\n", "\nMemoryMax=2G\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("it has no line with %q", line)
		}
	}
	example := regexp.MustCompile(`(?m)^#\s+OPTIONS=(.*)$`).FindStringSubmatch(string(text))
	if example == nil {
		t.Fatal("it shows no options")
	}
	cmd := (&enableCommand{env: &Env{Stderr: io.Discard}}).command()
	testenv.Must(t, cmd.ParseFlags(strings.Fields(example[1])))
	if kinds := cmd.Flags().Lookup("keep-counters").Value.String(); kinds != "conntrack" {
		t.Errorf("it keeps %q", kinds)
	}
	for _, flag := range []string{"ipv6", "nat", "listen"} {
		if !cmd.Flags().Changed(flag) {
			t.Errorf("it shows no --%s", flag)
		}
	}
}

// awaited gets a value when what is written to it says that pods are carried.
type awaited chan bool

func (a awaited) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("carried: pods 2")) {
		select {
		case a <- true:
		default:
		}
	}
	return len(text), nil
}

// After a difference, and when it was disabled, what would be started again waits until it is ended, and has said
// once why; after anything else it ends.
func TestFastpathStaysOff(t *testing.T) {
	var said bytes.Buffer
	env := &Env{Stderr: &said}
	missing := verr.New(verr.Missing, "cannot enable the fast path", "there are no pods", "make some")
	if none, other := stayOff(t.Context(), env, nil, false), stayOff(t.Context(), env, missing, false); none != nil || other != error(missing) || said.Len() > 0 {
		t.Errorf("gave %v and %v, said %s", none, other, &said)
	}
	differs := verr.New(verr.Findings, "cannot enable the fast path", "2 packets differ", "report them")
	attached := errors.New("a program stays attached")
	for _, c := range []struct {
		err      error
		disabled bool
		says     []string
		code     error
	}{
		{differs, false, []string{"2 packets differ"}, exitCode(verr.Findings)},
		{errors.Join(differs, attached), false, []string{"2 packets differ", "  why: a program stays attached"}, exitCode(verr.Findings)},
		{nil, true, []string{"was disabled"}, nil},
		{attached, true, []string{"  why: a program stays attached", "was disabled"}, exitCode(verr.Failed)},
	} {
		said.Reset()
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- stayOff(ctx, env, c.err, c.disabled) }()
		select {
		case <-ended:
			t.Fatal("it did not wait")
		case <-time.After(100 * time.Millisecond):
		}
		end()
		if err := <-ended; err != c.code { // what was printed is not to be printed again
			t.Errorf("after %v it gave %v, want %v", c.err, err, c.code)
		}
		for _, text := range append(c.says, "stays off") {
			if strings.Count(said.String(), text) != 1 {
				t.Errorf("%q is not there once in\n%s", text, &said)
			}
		}
	}
}
