package audit_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// hooks opens a poller of a namespace, and skips the test if this kernel does not list hooks.
func hooks(t *testing.T, n *netcfg.Namespace) *audit.HookPoller {
	t.Helper()
	var h *audit.HookPoller
	testenv.InNetns(t, n.Path(), func() (err error) {
		h, err = audit.OpenHookPoller(audit.IPv4)
		return err
	})
	t.Cleanup(func() { testenv.Must(t, h.Close()) })
	if _, told, err := h.UnknownFunction(true, true, false); err != nil || !told {
		testenv.Must(t, err)
		t.Skip("this kernel does not tell of netfilter's hooks (CONFIG_NETFILTER_NETLINK_HOOK)")
	}
	return h
}

// manyHooks are rules of all kinds that register kernel functions at hooks.
const manyHooks = `
table inet t {
	chain in { type filter hook prerouting priority 0; ct state invalid drop; }
	chain through { type filter hook forward priority 0; meta mark 7 drop; }
	chain out { type route hook output priority 0; }
}
table ip t {
	chain in { type filter hook input priority 0; }
	chain out { type route hook output priority 0; }
	chain to { type nat hook prerouting priority -100; tcp dport 80 dnat to 192.0.2.1; }
	chain from { type nat hook postrouting priority 100; masquerade; }
}
table ip nat {
	chain in { type nat hook input priority 100; snat to 192.0.2.2; }
	chain out { type nat hook output priority -100; tcp dport 80 dnat to 192.0.2.1; }
}
table bridge t {
	chain in { type filter hook prerouting priority 0; }
	chain out { type filter hook postrouting priority 0; ct state established accept; }
}`

// Functions that rules register are known. A program is unknown, if it is at a hook that the poll
// covers.
func TestHooks(t *testing.T) {
	n := testenv.Netns(t)
	h := hooks(t, n)
	if err := testenv.Load(t, n, manyHooks, "nft", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	foreign := func(tunnels, bridges bool) (what string) {
		t.Helper()
		for range 2 { // by turns
			var told bool
			var err error
			if what, told, err = h.UnknownFunction(tunnels, bridges, false); err != nil || !told {
				t.Fatalf("told: %v, %v", told, err)
			}
		}
		return what
	}
	if got := foreign(true, true); got != "" {
		t.Errorf("with rules alone, %s is foreign", got)
	}
	for _, c := range []struct {
		family         link.NetfilterProtocolFamily
		hook           link.NetfilterInetHook
		plain, tunnels string
	}{
		{link.NetfilterProtoIPv4, link.NetfilterInetPreRouting, "nf_hook_run_bpf at ip prerouting", "nf_hook_run_bpf at ip prerouting"},
		{link.NetfilterProtoIPv4, link.NetfilterInetLocalIn, "", "nf_hook_run_bpf at ip input"},
		{link.NetfilterProtoIPv4, link.NetfilterInetForward, "nf_hook_run_bpf at ip forward", "nf_hook_run_bpf at ip forward"},
		{link.NetfilterProtoIPv4, link.NetfilterInetLocalOut, "", "nf_hook_run_bpf at ip output"},
		{link.NetfilterProtoIPv4, link.NetfilterInetPostRouting, "nf_hook_run_bpf at ip postrouting", "nf_hook_run_bpf at ip postrouting"},
		{link.NetfilterProtoIPv6, link.NetfilterInetForward, "", ""},
	} {
		remove := netfilterProgram(t, n, c.family, c.hook)
		if plain, tunnels := foreign(false, false), foreign(true, false); plain != c.plain || tunnels != c.tunnels {
			t.Errorf("family %v, hook %v: foreign is %q, and with tunnels %q, want %q and %q", c.family, c.hook, plain, tunnels, c.plain, c.tunnels)
		}
		remove()
		if got := foreign(true, true); got != "" {
			t.Errorf("with nothing but rules again, %s is foreign", got)
		}
	}
}

// netfilterProgram attaches a program that accepts every packet.
func netfilterProgram(t *testing.T, n *netcfg.Namespace, family link.NetfilterProtocolFamily, hook link.NetfilterInetHook) (remove func()) {
	t.Helper()
	const accept = 1 // NF_ACCEPT
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "foreign", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, accept), asm.Return()}})
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip("this kernel has no programs at netfilter's hooks")
	}
	testenv.Must(t, err)
	defer p.Close()
	var l link.Link
	testenv.InNetns(t, n.Path(), func() (err error) {
		l, err = link.AttachNetfilter(link.NetfilterOptions{Program: p, ProtocolFamily: family, Hook: hook, Priority: 7})
		return err
	})
	return func() { testenv.Detach(t, l) }
}

// A list that has changed while it was read may lack a function. It is read again; if it changes each time, its
// hook is unknown.
func TestHooksThatChange(t *testing.T) {
	const changed = unix.NLM_F_DUMP_INTR
	for _, c := range []struct {
		flags []uint16 // of the ends of one list after another
		want  string
	}{
		{[]uint16{0}, ""},
		{[]uint16{changed, 0}, ""},
		{[]uint16{changed, changed, changed}, "at ip prerouting, whose list changes while it is read"},
	} {
		ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0)
		testenv.Must(t, err)
		defer unix.Close(ends[1])
		testenv.Must(t, unix.SetsockoptTimeval(ends[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 10}))
		for i, flags := range c.flags {
			end := nl.NetlinkRequest{NlMsghdr: unix.NlMsghdr{Type: unix.NLMSG_DONE, Flags: unix.NLM_F_MULTI | flags, Seq: uint32(i + 1)}, RawData: make([]byte, 4)}
			_, err := unix.Write(ends[1], end.Serialize())
			testenv.Must(t, err)
		}
		h := audit.PollerOf(ends[0])
		function, told, err := h.UnknownFunction(true, true, true)
		if function != c.want || !told || err != nil {
			t.Errorf("%v: %q, %v, %v, want %q", c.flags, function, told, err, c.want)
		}
		testenv.Must(t, h.Close())
	}
}
