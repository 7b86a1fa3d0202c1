package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf/link"
)

// NetfilterLinks tracks BPF programs at netfilter's hooks of one version of IP, on kernels that do not list
// those hooks. The kernel tells the hook of a link and not its namespace, so all count.
type NetfilterLinks struct {
	family   Family
	last     link.ID // the last one that was read; IDs increase
	programs map[link.ID]*link.NetfilterInfo
}

// NewNetfilterLinks tracks those of a family; it has read none yet.
func NewNetfilterLinks(family Family) *NetfilterLinks { return &NetfilterLinks{family: family} }

// linkHooks are the names of netfilter's hooks.
var linkHooks = map[link.NetfilterInetHook]string{
	link.NetfilterInetPreRouting: "prerouting", link.NetfilterInetLocalIn: "input", link.NetfilterInetForward: "forward",
	link.NetfilterInetLocalOut: "output", link.NetfilterInetPostRouting: "postrouting",
}

// Look names a hook with a program: one for forwarded packets, or with tunnels any; "":
// there is none.
func (f *NetfilterLinks) Look(tunnels bool) (hook string, err error) {
	if f.programs == nil {
		f.programs = map[link.ID]*link.NetfilterInfo{}
	}
	family := link.NetfilterProtocolFamily(f.family.Number())
	it := link.Iterator{ID: f.last}
	defer it.Close()
	for it.Next() {
		f.last = it.ID
		info, err := it.Link.Info()
		if err != nil {
			return "", fmt.Errorf("read BPF link %d: %w", it.ID, err)
		}
		if n := info.Netfilter(); n != nil && n.ProtocolFamily == family {
			f.programs[it.ID] = n
		}
	}
	if err := it.Err(); err != nil && !errors.Is(err, syscall.EAGAIN) { // a link that is being made: the next poll finds it
		return "", err
	}
	for id, n := range f.programs {
		l, err := link.NewFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			delete(f.programs, id)
			continue
		}
		if err != nil {
			return "", err
		}
		l.Close()
		own := n.Hook == link.NetfilterInetLocalIn || n.Hook == link.NetfilterInetLocalOut
		if !own || tunnels {
			hook = linkHooks[n.Hook]
		}
	}
	return hook, nil
}
