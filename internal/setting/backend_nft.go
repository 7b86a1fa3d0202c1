package setting

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nft/match"
)

// Tables of the packet filter that are ours: what is in them, nobody else
// wrote, and without them nothing of it is left.
const (
	NotrackTable = "venturi-notrack"
	FlowTable    = "venturi-flowtable"
)

// Notrack is the text of a table that keeps packets to UDP ports out of
// connection tracking.
func Notrack(ports []int) string {
	var b strings.Builder
	for _, hook := range []string{"output", "prerouting"} {
		fmt.Fprintf(&b, "chain %s filter hook %s priority raw\n", hook, hook)
		for _, port := range ports {
			fmt.Fprintf(&b, "udp dport %d notrack\n", port)
		}
	}
	return b.String()
}

// Flowtable is the text of a table by which established connections that are
// forwarded between devices pass by the rules.
func Flowtable(devices []string) string {
	sorted := slices.Sorted(slices.Values(devices))
	return "flowtable fast ingress priority filter devices " + strings.Join(sorted, " ") + "\n" +
		"chain forward filter hook forward priority filter\n" +
		"meta l4proto tcp flow add fast\n" +
		"meta l4proto udp flow add fast\n"
}

// nftBackend is our tables of the packet filter of a namespace, each read and
// written whole, in one transaction of the kernel. A key is the name of one. A
// value is what it holds, one chain, rule or flowtable a line; a table that
// somebody else changed shows it, in words that cannot be written.
func nftBackend() Backend {
	at := func(s Setting, fn func(*nftables.Conn, *nftables.Table) error) error {
		if s.Key != NotrackTable && s.Key != FlowTable {
			return fmt.Errorf("table %q is not ours", s.Key)
		}
		return s.Scope.Enter(func(string) error {
			conn, err := nftables.New()
			if err != nil {
				return fmt.Errorf("open nftables: %w", err)
			}
			return nftError(fn(conn, &nftables.Table{Family: nftables.TableFamilyINet, Name: s.Key}))
		})
	}
	return Backend{
		Name: "nft",
		Read: func(s Setting) (v Value, err error) {
			err = at(s, func(conn *nftables.Conn, table *nftables.Table) error {
				v, err = readTable(conn, table)
				return err
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			return at(s, func(conn *nftables.Conn, table *nftables.Table) error {
				// Made first, so that there is one to delete.
				conn.AddTable(table)
				conn.DelTable(table)
				if v.Present {
					conn.AddTable(table)
					if err := writeTable(conn, table, v.String()); err != nil {
						return err
					}
				}
				return conn.Flush()
			})
		},
	}
}

// nftError makes of an error of a kernel without the packet filter, or without
// a part of it, one that says so.
func nftError(err error) error {
	for _, lacks := range []error{unix.EPROTONOSUPPORT, unix.EOPNOTSUPP, unix.EAFNOSUPPORT} {
		if errors.Is(err, lacks) {
			return fmt.Errorf("%w: this kernel has not all of nftables: %w", errors.ErrUnsupported, err)
		}
	}
	if errors.Is(err, unix.ENOENT) {
		// Not wrapped: that would say that the table is not there.
		return fmt.Errorf("%w: this kernel lacks a part of nftables, or there is no device of that name", errors.ErrUnsupported)
	}
	return err
}

// Chains' hooks and priorities, as the text has them.
var (
	nftHooks = map[string]*nftables.ChainHook{
		"prerouting": nftables.ChainHookPrerouting, "forward": nftables.ChainHookForward, "output": nftables.ChainHookOutput,
	}
	nftPriorities = map[string]*nftables.ChainPriority{"raw": nftables.ChainPriorityRaw, "filter": nftables.ChainPriorityFilter}
)

// writeTable adds what a text says to a table that is empty.
func writeTable(conn *nftables.Conn, table *nftables.Table, text string) error {
	var chain *nftables.Chain
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) > 6 && words[0] == "flowtable" && slices.Equal(words[2:6], []string{"ingress", "priority", "filter", "devices"}):
			conn.AddFlowtable(&nftables.Flowtable{Table: table, Name: words[1], Devices: words[6:]})
		case len(words) == 7 && words[0] == "chain" && nftHooks[words[4]] != nil && nftPriorities[words[6]] != nil:
			chain = conn.AddChain(&nftables.Chain{
				Table: table, Name: words[1], Type: nftables.ChainTypeFilter, Hooknum: nftHooks[words[4]], Priority: nftPriorities[words[6]],
			})
		default:
			rule, err := ruleOf(words)
			if err != nil || chain == nil {
				return errors.Join(fmt.Errorf("%q is nothing that we write into a table", strings.TrimSpace(line)), err)
			}
			conn.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: rule})
		}
	}
	return nil
}

// ruleOf makes the expressions of a rule.
func ruleOf(words []string) ([]expr.Any, error) {
	switch {
	case len(words) == 4 && words[0] == "udp" && words[1] == "dport" && words[3] == "notrack":
		port, err := strconv.ParseUint(words[2], 10, 16)
		return slices.Concat(match.UDP(), match.Dport(uint16(port)), []expr.Any{&expr.Notrack{}}), err
	case len(words) == 6 && words[0] == "meta" && words[1] == "l4proto" && words[3] == "flow" && words[4] == "add":
		number, known := map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP}[words[2]]
		if !known {
			return nil, fmt.Errorf("protocol %q", words[2])
		}
		return append(match.Protocol(number), &expr.FlowOffload{Name: words[5]}), nil
	}
	return nil, errors.New("no rule of ours")
}
