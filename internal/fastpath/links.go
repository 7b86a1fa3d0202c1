package fastpath

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/cilium/ebpf/link"
)

// filterLinks follows the programs of BPF at netfilter's hooks for IPv4, where the
// kernel does not list those hooks. Of a program it says at which hook it is, and not
// in whose namespace: any counts.
type filterLinks struct {
	last link.ID // of all that were looked at: their numbers go up
	at   map[link.ID]*link.NetfilterInfo
}

// hookNames are netfilter's, by their numbers there.
var hookNames = map[link.NetfilterInetHook]string{
	link.NetfilterInetPreRouting: "prerouting", link.NetfilterInetLocalIn: "input", link.NetfilterInetForward: "forward",
	link.NetfilterInetLocalOut: "output", link.NetfilterInetPostRouting: "postrouting",
}

// look names a hook for packets that are forwarded which has a program, or with tunnels
// any; "": there is none.
func (f *filterLinks) look(tunnels bool) (hook string, err error) {
	if f.at == nil {
		f.at = map[link.ID]*link.NetfilterInfo{}
	}
	it := link.Iterator{ID: f.last}
	defer it.Close()
	for it.Next() {
		f.last = it.ID
		info, err := it.Link.Info()
		if err != nil {
			return "", fmt.Errorf("read link %d of BPF: %w", it.ID, err)
		}
		if n := info.Netfilter(); n != nil && n.ProtocolFamily == link.NetfilterProtoIPv4 {
			f.at[it.ID] = n
		}
	}
	if err := it.Err(); err != nil && !errors.Is(err, syscall.EAGAIN) { // the next look finds one that is just coming
		return "", err
	}
	for id, n := range f.at {
		l, err := link.NewFromID(id)
		if errors.Is(err, fs.ErrNotExist) {
			delete(f.at, id)
			continue
		}
		if err != nil {
			return "", err
		}
		l.Close()
		own := n.Hook == link.NetfilterInetLocalIn || n.Hook == link.NetfilterInetLocalOut
		if !own || tunnels {
			hook = hookNames[n.Hook]
		}
	}
	return hook, nil
}
