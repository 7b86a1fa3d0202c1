package setting

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// readTable writes a table down, so that what [writeTable] wrote reads the same.
func readTable(conn *nftables.Conn, table *nftables.Table) (Value, error) {
	tables, err := conn.ListTablesOfFamily(table.Family)
	if err != nil {
		return Value{}, fmt.Errorf("list tables: %w", err)
	}
	at := slices.IndexFunc(tables, func(t *nftables.Table) bool { return t.Name == table.Name })
	if at < 0 {
		return Value{}, nil
	}
	var b strings.Builder
	if flags := tables[at].Flags; flags != 0 {
		fmt.Fprintf(&b, "? flags %d\n", flags)
	}
	for _, read := range []func(*strings.Builder, *nftables.Conn, *nftables.Table) error{readSets, readObjects, readFlowtables, readChains} {
		if err := read(&b, conn, table); err != nil {
			return Value{}, err
		}
	}
	return Text(b.String()), nil
}

func readSets(b *strings.Builder, conn *nftables.Conn, table *nftables.Table) error {
	sets, err := conn.GetSets(table)
	if err != nil {
		return fmt.Errorf("list sets: %w", err)
	}
	for _, s := range sets {
		fmt.Fprintf(b, "? set %s\n", s.Name)
	}
	return nil
}

// readObjects lists counters, quotas and their like, none of which is ours.
func readObjects(b *strings.Builder, conn *nftables.Conn, table *nftables.Table) error {
	objects, err := conn.GetNamedObjects(table)
	if err != nil {
		return fmt.Errorf("list objects: %w", err)
	}
	for _, o := range objects {
		if named, ok := o.(*nftables.NamedObj); ok {
			fmt.Fprintf(b, "? object %s of type %d\n", named.Name, named.Type)
		} else {
			b.WriteString("? object\n")
		}
	}
	return nil
}

func readFlowtables(b *strings.Builder, conn *nftables.Conn, table *nftables.Table) error {
	flowtables, err := conn.ListFlowtables(table)
	if err != nil && table.Name != FlowTable {
		return nil // older kernels do not know the question, and have none
	}
	if err != nil {
		return fmt.Errorf("list flowtables: %w", err)
	}
	for _, f := range flowtables {
		slices.Sort(f.Devices)
		mark := ""
		if f.Flags != 0 || f.Hooknum == nil || *f.Hooknum != *nftables.FlowtableHookIngress || f.Priority == nil || *f.Priority != *nftables.FlowtablePriorityFilter {
			mark = "? "
		}
		fmt.Fprintf(b, "%sflowtable %s ingress priority filter devices %s\n", mark, f.Name, strings.Join(f.Devices, " "))
	}
	return nil
}

func readChains(b *strings.Builder, conn *nftables.Conn, table *nftables.Table) error {
	chains, err := conn.ListChainsOfTableFamily(table.Family)
	if err != nil {
		return fmt.Errorf("list chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != table.Name })
	slices.SortFunc(chains, func(x, y *nftables.Chain) int { return strings.Compare(x.Name, y.Name) })
	for _, c := range chains {
		b.WriteString(chainText(c) + "\n")
		rules, err := conn.GetRules(table, c)
		if err != nil {
			return fmt.Errorf("list rules: %w", err)
		}
		for _, r := range rules {
			b.WriteString(ruleText(r.Exprs) + "\n")
		}
	}
	return nil
}

// chainText is the line of a chain; one that we would not write begins with a
// question mark.
func chainText(c *nftables.Chain) string {
	if c.Hooknum == nil || c.Priority == nil {
		return "? chain " + c.Name
	}
	hook, priority := fmt.Sprint(*c.Hooknum), fmt.Sprint(*c.Priority)
	for name, h := range nftHooks {
		if *h == *c.Hooknum {
			hook = name
		}
	}
	for name, p := range nftPriorities {
		if *p == *c.Priority {
			priority = name
		}
	}
	text := fmt.Sprintf("chain %s %s hook %s priority %s", c.Name, c.Type, hook, priority)
	if c.Policy != nil && *c.Policy != nftables.ChainPolicyAccept {
		text = "? " + text + " policy drop"
	}
	return text
}

// ruleText is the line of a rule: that of which these are the expressions, or
// one that cannot be written.
func ruleText(found []expr.Any) string {
	var candidate string
	for _, e := range found {
		switch e := e.(type) {
		case *expr.Cmp:
			switch {
			case len(e.Data) == 2:
				candidate = fmt.Sprintf("udp dport %d notrack", binary.BigEndian.Uint16(e.Data))
			case len(e.Data) == 1 && e.Data[0] == unix.IPPROTO_TCP:
				candidate = "meta l4proto tcp flow add"
			case len(e.Data) == 1 && e.Data[0] == unix.IPPROTO_UDP:
				candidate = "meta l4proto udp flow add"
			}
		case *expr.FlowOffload:
			candidate += " " + e.Name
		}
	}
	if want, err := ruleOf(strings.Fields(candidate)); err == nil && ruleSummary(want) == ruleSummary(found) {
		return candidate
	}
	return "? " + ruleSummary(found)
}

// ruleSummary writes expressions down in a line.
func ruleSummary(rule []expr.Any) string {
	var parts []string
	for _, e := range rule {
		text, err := json.Marshal(e)
		if err != nil {
			text = []byte(err.Error())
		}
		parts = append(parts, strings.TrimPrefix(fmt.Sprintf("%T", e), "*expr.")+string(text))
	}
	return strings.Join(parts, " ")
}
