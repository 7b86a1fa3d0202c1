package netcfg

import (
	"github.com/google/nftables"
)

// RewriteTable puts a table in the place of the one of its name, if there is one,
// in one transaction: that is how those who manage rules replace theirs.
func (n *Namespace) RewriteTable(t Table) error {
	return n.Do(func() error {
		c, err := nftables.New(nftables.WithSockOptions(roomyBuffers))
		if err != nil {
			return n.Wrap("open nftables", err)
		}
		old := &nftables.Table{Family: nftables.TableFamilyIPv4, Name: t.Name}
		c.AddTable(old) // so that there is one to delete
		c.DelTable(old)
		if err := addTable(c, t); err != nil {
			return n.Wrap("rewrite table "+t.Name, err)
		}
		return nil
	})
}
