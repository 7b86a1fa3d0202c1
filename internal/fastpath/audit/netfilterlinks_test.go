package audit_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Programs at netfilter's hooks are found by their links, those that were there before
// and those that come, as long as they are there.
func TestNetfilterPrograms(t *testing.T) {
	testenv.NeedsNobodyBeside(t)
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	m, err := w.Create(w.Name("m1"))
	testenv.Must(t, err)
	defer m.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "foreign", Type: ebpf.Netfilter, AttachType: ebpf.AttachNetfilter, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1 /* NF_ACCEPT */), asm.Return()}})
	if errors.Is(err, ebpf.ErrNotSupported) {
		t.Skip("this kernel has no programs at netfilter's hooks")
	}
	testenv.Must(t, err)
	defer p.Close()
	attach := func(family link.NetfilterProtocolFamily, hook link.NetfilterInetHook) (l link.Link) {
		t.Helper()
		testenv.InNetns(t, m.Path(), func() (err error) {
			l, err = link.AttachNetfilter(link.NetfilterOptions{Program: p, ProtocolFamily: family, Hook: hook, Priority: 7})
			return err
		})
		return l
	}
	before, after := audit.NewNetfilterLinks(audit.IPv4), audit.NewNetfilterLinks(audit.IPv4)
	for _, c := range []struct {
		family         link.NetfilterProtocolFamily
		hook           link.NetfilterInetHook
		plain, tunnels string
	}{
		{link.NetfilterProtoIPv4, link.NetfilterInetForward, "forward", "forward"},
		{link.NetfilterProtoIPv4, link.NetfilterInetPostRouting, "postrouting", "postrouting"},
		{link.NetfilterProtoIPv4, link.NetfilterInetLocalIn, "", "input"},
		{link.NetfilterProtoIPv4, link.NetfilterInetLocalOut, "", "output"},
		{link.NetfilterProtoIPv6, link.NetfilterInetForward, "", ""},
	} {
		look := func(f *audit.NetfilterLinks, wantPlain, wantTunnels string) {
			t.Helper()
			plain, err := f.Look(false)
			testenv.Must(t, err)
			tunnels, err := f.Look(true)
			testenv.Must(t, err)
			if plain != wantPlain || tunnels != wantTunnels {
				t.Errorf("family %v, hook %v: found %q, and with tunnels %q, want %q and %q", c.family, c.hook, plain, tunnels, wantPlain, wantTunnels)
			}
		}
		look(before, "", "")
		l := attach(c.family, c.hook)
		look(before, c.plain, c.tunnels)
		look(after, c.plain, c.tunnels)
		testenv.Detach(t, l)
		look(before, "", "")
		look(after, "", "")
		after = audit.NewNetfilterLinks(audit.IPv4)
	}
}
