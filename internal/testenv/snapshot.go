package testenv

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// Snapshot writes down the machine's own interfaces, addresses, routes, rules,
// permanent neighbours, nftables and settings, one a line, so that two of them can be compared byte for byte
// and a difference be read. Statistics are not in it, nor are the settings
// below.
func Snapshot(t testing.TB) string {
	t.Helper()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	h, err := netlink.NewHandle(0) // NETLINK_ROUTE
	if err != nil {
		t.Fatalf("open netlink: %v", err)
	}
	defer h.Close()
	must := func(what string, err error) {
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	must("list links", snapLinks(h, add))
	must("list routes", snapRoutes(h, add))
	must("list rules", snapRules(h, add))
	must("list neighbours", snapNeighbours(h, add))
	must("list nftables", snapNftables(add))
	must("list settings", snapSettings(add))
	return strings.Join(lines, "\n") + "\n"
}

// Ruleset writes down the nftables of the calling thread's namespace, as
// [Snapshot] does those of the machine.
func Ruleset(t testing.TB) string {
	t.Helper()
	var lines []string
	if err := snapNftables(func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }); err != nil {
		t.Fatalf("list nftables: %v", err)
	}
	return strings.Join(lines, "\n")
}

func snapLinks(h *netlink.Handle, add func(string, ...any)) error {
	links, err := host.Links()
	if err != nil {
		return err
	}
	for _, l := range links {
		a := l.Attrs()
		add("link %d %s %s mac=%s mtu=%d txq=%d flags=%s state=%s master=%d", a.Index, a.Name, l.Type(),
			a.HardwareAddr, a.MTU, a.TxQLen, a.Flags, a.OperState, a.MasterIndex)
		if features, err := host.Features(a.Name); err == nil {
			add("features %s %v", a.Name, features) // fmt sorts maps
		}
		qdiscs, err := h.QdiscList(l)
		if err != nil {
			return err
		}
		for _, q := range qdiscs {
			add("qdisc %s %s", a.Name, q.Attrs())
		}
		addrs, err := h.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, addr := range addrs {
			add("address %s %s scope=%d", a.Name, addr.IPNet, addr.Scope)
		}
	}
	return nil
}

func snapRoutes(h *netlink.Handle, add func(string, ...any)) error {
	// Table 0 asks for those of all tables. Flags and metrics are part of the text.
	routes, err := h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	var list []string
	for _, r := range routes {
		list = append(list, fmt.Sprintf("route table=%d type=%d protocol=%d %s", r.Table, r.Type, r.Protocol, r))
	}
	return sorted(list, add)
}

func snapRules(h *netlink.Handle, add func(string, ...any)) error {
	rules, err := h.RuleList(netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	var list []string
	for _, r := range rules {
		list = append(list, fmt.Sprintf("rule family=%d %s", r.Family, r))
	}
	return sorted(list, add)
}

// snapNeighbours leaves out what ARP and neighbour discovery learned: it comes
// and goes by itself.
func snapNeighbours(h *netlink.Handle, add func(string, ...any)) error {
	var list []string
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		neighbours, err := h.NeighList(0, family)
		if err != nil {
			return err
		}
		for _, n := range neighbours {
			if n.State&netlink.NUD_PERMANENT != 0 {
				list = append(list, fmt.Sprintf("neighbour link=%d %s mac=%s flags=%d", n.LinkIndex, n.IP, n.HardwareAddr, n.Flags))
			}
		}
	}
	return sorted(list, add)
}

// snapNftables writes down tables, chains, rules and sets. Counters are left
// out, as are elements that a rule or a timeout adds and removes.
func snapNftables(add func(string, ...any)) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	tables, err := c.ListTables()
	if errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return nil // a kernel without nftables has none
	}
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	chains, err := c.ListChains()
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	var list []string
	for _, t := range tables {
		list = append(list, fmt.Sprintf("nft %d %s flags=%d", t.Family, t.Name, t.Flags))
		sets, err := snapSets(c, t)
		if err != nil {
			return err
		}
		list = append(list, sets...)
	}
	for _, chain := range chains {
		rules, err := snapChain(c, chain)
		if err != nil {
			return err
		}
		list = append(list, rules...)
	}
	return sorted(list, add)
}

func snapChain(c *nftables.Conn, chain *nftables.Chain) ([]string, error) {
	name := fmt.Sprintf("nft %d %s chain %s", chain.Table.Family, chain.Table.Name, chain.Name)
	hook, err := json.Marshal([]any{chain.Type, chain.Hooknum, chain.Priority, chain.Policy, chain.Device})
	if err != nil {
		return nil, err
	}
	list := []string{fmt.Sprintf("%s %s", name, hook)}
	rules, err := c.GetRules(chain.Table, chain)
	if err != nil {
		return nil, fmt.Errorf("list rules of %s: %w", name, err)
	}
	for i, r := range rules {
		var parts []string
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case *expr.Counter:
				parts = append(parts, "counter")
			case *expr.Quota:
				parts = append(parts, fmt.Sprintf("quota %d over=%v", e.Bytes, e.Over))
			default:
				text, err := json.Marshal(e)
				if err != nil {
					return nil, fmt.Errorf("write rule of %s: %w", name, err)
				}
				parts = append(parts, fmt.Sprintf("%T%s", e, text))
			}
		}
		// The number keeps the order of rules when lines are sorted.
		list = append(list, fmt.Sprintf("%s rule %04d handle=%d %s", name, i, r.Handle, strings.Join(parts, " ")))
	}
	return list, nil
}

func snapSets(c *nftables.Conn, t *nftables.Table) ([]string, error) {
	sets, err := c.GetSets(t)
	if err != nil {
		return nil, fmt.Errorf("list sets of %s: %w", t.Name, err)
	}
	var list []string
	for _, s := range sets {
		name := fmt.Sprintf("nft %d %s set %s", t.Family, t.Name, s.Name)
		list = append(list, fmt.Sprintf("%s type=%s map=%v", name, s.KeyType.Name, s.IsMap))
		if s.Dynamic || s.HasTimeout {
			continue
		}
		elements, err := c.GetSetElements(s)
		if err != nil {
			return nil, fmt.Errorf("list elements of %s: %w", name, err)
		}
		for _, e := range elements {
			verdict := ""
			if v := e.VerdictData; v != nil {
				verdict = fmt.Sprintf(" verdict=%d %s", v.Kind, v.Chain)
			}
			list = append(list, fmt.Sprintf("%s element %x-%x end=%v value=%x%s", name, e.Key, e.KeyEnd, e.IntervalEnd, e.Val, verdict))
		}
	}
	return list, nil
}

func sorted(list []string, add func(string, ...any)) error {
	slices.Sort(list)
	for _, line := range list {
		add("%s", line)
	}
	return nil
}

// volatile are the files below /proc/sys that change by themselves, or that
// writing or reading changes: counters, random numbers, and what the kernel
// tunes while it runs.
var volatile = map[string]bool{
	"fs/aio-nr":                         true,
	"fs/dentry-state":                   true,
	"fs/epoll/max_user_watches":         true, // computed from free memory
	"fs/file-nr":                        true,
	"fs/inode-nr":                       true,
	"fs/inode-state":                    true,
	"fs/quota/syncs":                    true,
	"kernel/ns_last_pid":                true,
	"kernel/pty/nr":                     true,
	"kernel/random/entropy_avail":       true,
	"kernel/random/uuid":                true,
	"kernel/sched_domain":               true,
	"net/netfilter/nf_conntrack_count":  true,
	"net/ipv4/tcp_fastopen_key":         true,
	"vm/stat_refresh":                   true, // reading it does work
	"kernel/perf_event_max_sample_rate": true, // lowered under load
	"kernel/hung_task_detect_count":     true,
	"fs/binfmt_misc":                    true, // a file system of its own
}

func snapSettings(add func(string, ...any)) error {
	const root = "/proc/sys"
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went away, or may not be seen
		}
		name, _ := filepath.Rel(root, file)
		if volatile[name] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if d.IsDir() || err != nil || info.Mode().Perm()&0o444 == 0 {
			return nil
		}
		if value, err := os.ReadFile(file); err == nil {
			add("sysctl %s = %s", name, strings.TrimSpace(string(value)))
		}
		return nil
	})
}
