package setting_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// nft runs the program in a namespace.
func nft(t *testing.T, namespace string, command string) string {
	t.Helper()
	out, err := exec.Command("ip", "netns", "exec", filepath.Base(namespace), "nft", command).CombinedOutput()
	if err != nil {
		t.Fatalf("nft %s: %v: %s", command, err, out)
	}
	return string(out)
}

func TestNftBackend(t *testing.T) {
	_, n := testenv.Namespace(t)
	scope, err := setting.NetnsScope(n.Path())
	if err != nil {
		t.Fatal(err)
	}
	settings := setting.NewSettings(setting.Backends("")...)
	s := setting.Setting{Backend: "nft", Scope: scope, Key: setting.NotrackTable}
	holds := func(want setting.Value) {
		t.Helper()
		if v, err := settings.Read(s); err != nil || !v.Equal(want) {
			t.Fatalf("it holds %q, %v; want %q", v, err, want)
		}
	}
	write := func(v setting.Value) {
		t.Helper()
		if err := settings.Write(s, v); err != nil {
			t.Fatal(err)
		}
	}
	nft(t, n.Path(), "add table inet other")
	others := nft(t, n.Path(), "list ruleset")
	holds(setting.Value{})
	write(setting.Value{}) // what is not there is gone
	holds(setting.Value{})
	for _, ports := range [][]int{{4789, 6081}, {8472}, {65535, 1}} {
		write(setting.Text(setting.Notrack(ports)))
		holds(setting.Text(setting.Notrack(ports)))
	}
	write(setting.Text(setting.Notrack([]int{4789})))
	shown := nft(t, n.Path(), "list ruleset")
	for _, want := range []string{"table inet venturi-notrack", "hook prerouting priority raw", "hook output priority raw", "udp dport 4789 notrack"} {
		if !strings.Contains(shown, want) {
			t.Errorf("nft does not show %q:\n%s", want, shown)
		}
	}

	// What somebody else adds is seen, and cannot be written.
	for _, added := range []string{
		"add rule inet venturi-notrack output udp dport 5000 accept",
		"add rule inet venturi-notrack output udp sport 4789 notrack",
		"add rule inet venturi-notrack output counter",
		"add chain inet venturi-notrack own",
		"add chain inet venturi-notrack own { type filter hook input priority 0; policy drop; }",
		"add set inet venturi-notrack s { type ipv4_addr; }",
		"add counter inet venturi-notrack c",
		"add quota inet venturi-notrack q over 10 mbytes",
	} {
		write(setting.Text(setting.Notrack([]int{4789})))
		nft(t, n.Path(), added)
		v, err := settings.Read(s)
		if err != nil || v.Equal(setting.Text(setting.Notrack([]int{4789}))) {
			t.Errorf("%s: it holds %q, %v", added, v, err)
			continue
		}
		if err := settings.Write(s, v); err == nil {
			t.Errorf("%s: wrote %q", added, v)
		}
	}
	for _, text := range []string{"udp dport 5 notrack\n", "chain a filter hook output priority raw\nudp dport 70000 notrack\n", "chain a filter hook input priority raw\n"} {
		if err := settings.Write(s, setting.Text(text)); err == nil {
			t.Errorf("wrote %q", text)
		}
	}
	write(setting.Value{})
	if now := nft(t, n.Path(), "list ruleset"); now != others {
		t.Errorf("in the end there is\n%s, want\n%s", now, others)
	}
	s.Key = "other"
	if _, err := settings.Read(s); err == nil {
		t.Error("read a table that is not ours")
	}
}
