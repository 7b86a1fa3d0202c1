package fastpath

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// programTracker finds changes of the BPF programs on the path of packets. The kernel
// sends no notification of them.
type programTracker struct {
	poller    *topology.Poller
	ownIDs    []ebpf.ProgramID // of this daemon
	cache     map[ebpf.ProgramID]seenProgram
	revisions map[attachPoint]uint64 // of the programs at each attach point, as last read
	points    []attachPoint          // those of revisions
	queue     []attachPoint          // of these, to be polled next
	objectIDs kernel.BPFObjectIDs    // of the host
	full      int                    // full polls that are due
	pods      int                    // of those, polls that look at pods' own devices as well
	nextFull  time.Time              // earliest time of the next full poll
}

// seenProgram is a program at an attach point.
type seenProgram struct {
	name     string
	fastPath bool // it is one of a fast path; a host may have several
}

// owns is the [topology.ProgramOwner] of this daemon. The watch calls it, too.
func (t *programTracker) owns(program uint32) bool {
	own, err := kernel.IsFastPath(ebpf.ProgramID(program))
	return own && err == nil // what cannot be known is somebody else's
}

// loadOwn reads the IDs of this daemon's programs.
func (t *programTracker) loadOwn(objs *bpf.Objects) error {
	for _, p := range []*ebpf.Program{objs.FromPod, objs.ToPod, objs.FromWire, objs.ToPeer, objs.ToTunnel, objs.FromTunnel} {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID() // kernels with tcx have IDs
		t.ownIDs = append(t.ownIDs, id)
	}
	return nil
}

// list gives the programs at an attach point, in order, and records the revision. ours is the
// index of this daemon's program, or the length of the list.
func (t *programTracker) list(p attachPoint) (programs []seenProgram, ours int, err error) {
	list, err := t.query(p)
	if err != nil {
		return nil, 0, err
	}
	ours = len(list.Programs)
	t.revisions[p] = list.Revision
	for i, attached := range list.Programs {
		if slices.Contains(t.ownIDs, attached.ID) {
			ours = i
		}
		seen, known := t.cache[attached.ID]
		if !known {
			if seen.name, err = programName(attached.ID); err != nil {
				return nil, 0, err
			}
			seen.fastPath = t.owns(uint32(attached.ID))
			t.cache[attached.ID] = seen // IDs are not reused
		}
		programs = append(programs, seen)
	}
	return programs, ours, nil
}

// foreign names a program of somebody else; "": there is none.
func foreign(programs []seenProgram) string {
	i := slices.IndexFunc(programs, func(p seenProgram) bool { return !p.fastPath })
	if i < 0 {
		return ""
	}
	return cmp.Or(programs[i].name, "without a name")
}

// query lists the programs at an attach point. If the device is gone, or is no
// longer a netkit, the list is empty.
func (t *programTracker) query(p attachPoint) (list *link.QueryResult, err error) {
	switch {
	case p.point == attachXDP:
		return t.queryXDP(p.device)
	case !kernel.HasTCX(): // and netkit is newer
		return &link.QueryResult{}, nil
	}
	o := link.QueryOptions{Target: p.device, Attach: ebpf.AttachType(p.point)}
	for range 3 { // one may come while the kernel is asked
		if list, err = link.QueryPrograms(o); !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &link.QueryResult{Revision: kernel.FirstRevision}, nil
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return &link.QueryResult{}, nil
	}
	return list, err
}

// queryXDP does so for XDP, where a device has one program.
func (t *programTracker) queryXDP(device int) (*link.QueryResult, error) {
	id, err := t.poller.XDPProgram(device)
	list := &link.QueryResult{Revision: uint64(id)}
	if id != 0 {
		list.Programs = []link.AttachedProgram{{ID: ebpf.ProgramID(id)}}
	}
	return list, err
}

func programName(id ebpf.ProgramID) (string, error) {
	p, err := ebpf.NewProgramFromID(id)
	if errors.Is(err, syscall.ENOENT) {
		return "", nil // it was unloaded since: the next poll finds out
	}
	if err != nil {
		return "", err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return "", err
	}
	return info.Name, nil
}

// maxCached limits what is kept of programs.
const maxCached = 1 << 12

// note makes full polls due because of news of BPF programs or links.
func (t *programTracker) note(news kernel.BPFNews) {
	const twice = 2 // it may be attached a moment later
	if news.Programs {
		t.full = twice
	}
	if news.XDPLinks {
		t.pods = twice
	}
}

// changed polls whether programs were attached or detached. It polls all attach points soon
// after there was news of BPF programs or links, and otherwise so many in turn, because a program
// can be attached without a link long after it was loaded.
func (t *programTracker) changed(batch int) (is, all bool, err error) {
	all = t.full > 0 && time.Now().After(t.nextFull)
	if all || len(t.queue) == 0 {
		t.points = slices.AppendSeq(t.points[:0], maps.Keys(t.revisions))
		t.queue = t.points
	}
	n := min(batch, len(t.queue))
	if all {
		t.full--
		n = len(t.queue)
	}
	some := t.queue[:n]
	t.queue = t.queue[n:]
	for _, p := range some {
		revision, err := t.revisionAt(p)
		if err != nil {
			return false, all, err
		}
		if was, known := t.revisions[p]; known && revision != was {
			return true, all, nil
		}
	}
	return false, all, nil
}

// podsDue tells whether a full poll is to look at pods' own devices as well: a new link may be an
// XDP program there, which nobody announces.
func (t *programTracker) podsDue() bool {
	if t.pods == 0 {
		return false
	}
	t.pods--
	return true
}

// fullPollRest is the least time between full polls, as a multiple of what one took.
const fullPollRest = 400

// maxFullPoll is what a full poll counts as at most: one that was interrupted took longer than it
// cost.
const maxFullPoll = 10 * time.Millisecond

// revisionAt reads the revision of the programs at an attach point.
func (t *programTracker) revisionAt(p attachPoint) (uint64, error) {
	if p.point == attachXDP || !kernel.HasTCX() {
		list, err := t.query(p)
		if err != nil {
			return 0, err
		}
		return list.Revision, nil
	}
	return kernel.ProgramsRevision(p.device, uint32(p.point))
}

// noteOwnChange accounts for one change that this daemon has made at an attach point. A
// change by somebody else at the same time is still found.
func (t *programTracker) noteOwnChange(p attachment) error {
	at := attachPoint{p.device, p.point}
	was, known := t.revisions[at]
	if !known {
		return nil
	}
	revision, err := t.revisionAt(at)
	if revision == was+1 {
		t.revisions[at] = revision
	}
	return err
}
