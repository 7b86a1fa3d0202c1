package cli

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
)

// attached lists what a fast path would have attached, made or recorded.
const attached = `attached() {
	tc qdisc show
	for device in eth0 cali2 cali3; do for side in ingress egress; do tc filter show dev $device $side; done; done 2>/dev/null
	ls -A /sys/fs/bpf /run/venturi-fastpath 2>&1
	nft list ruleset
	venturi journal
}
`

// Under a kernel that is too old for the fast path, its commands say by name what is missing, with the exit code
// for that, and attach nothing. Under one that has it, the same node would be carried.
func TestFastpathUnderKernels(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, "5.10", func(t *testing.T, k kernel.Kernel) {
		b := startUnder(t, k, t.TempDir())
		b.sh(t, verr.OK, "set -e; ip netns add ends\n"+strings.ReplaceAll(podWiring, "ENDS", "ends"))
		if !strings.HasPrefix(k.Release, "5.10.") {
			b.sh(t, verr.OK, "venturi fastpath plan", `^cali2 +10\.244\.0\.2 +carried`, `^192\.0\.2\.2 +10\.244\.2\.0/24 +carried`)
			return
		}
		b.sh(t, verr.OK, attached+"attached >before")
		const why, do = `^  why: this kernel has no BPF programs at tc .*: count with atomic instructions \(Linux 5\.12 or later\): .*operation not supported$`,
			`^  do:  run kernel 5\.13 or later, [^;]*$`
		for command, summary := range map[string]string{
			"plan": "cannot plan a fast path", "plan --json": "cannot plan a fast path", "plan --ipv6": "cannot plan a fast path",
			"enable": "cannot enable the fast path", "enable --ipv6": "cannot enable the fast path", "shadow --time 2s": "cannot compare packets",
		} {
			b.sh(t, verr.Missing, "venturi fastpath "+command, "^venturi: "+summary+"$", why, do)
		}
		b.sh(t, verr.OK, "venturi fastpath status", "^there is no fast path here$")
		b.sh(t, verr.OK, attached+"attached >after; cmp before after; cat before", `^nothing was changed$`)
	})
}
