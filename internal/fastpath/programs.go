package fastpath

import (
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
	ownNames  []string // names of the fast path's programs
	ownIDs    []ebpf.ProgramID
	names     map[ebpf.ProgramID]string // a cache
	revisions map[attachPoint]uint64    // of the programs at each attach point, as last read
	queue     []attachPoint             // to be polled next
	objectIDs topology.BPFObjectIDs     // of the host
	full      int                       // full polls that are due
	nextFull  time.Time                 // earliest time of the next full poll
}

// isOwn tells whether a name is that of a fast path's program. A host may have several
// fast paths.
func (t *programTracker) isOwn(name string) bool { return slices.Contains(t.ownNames, name) }

// loadOwn reads the names and IDs of this fast path's programs.
func (t *programTracker) loadOwn(objs *bpf.Objects) error {
	for _, p := range []*ebpf.Program{objs.FromPod, objs.ToPod, objs.FromWire, objs.ToPeer, objs.ToTunnel} {
		info, err := p.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID() // kernels with tcx have IDs
		t.ownNames, t.ownIDs = append(t.ownNames, info.Name), append(t.ownIDs, id)
	}
	return nil
}

// list gives the names of the programs at an attach point, in order, and records the
// revision. ours is the index of this daemon's program, or the length of the list.
func (t *programTracker) list(h attachPoint) (names []string, ours int, err error) {
	list, err := queryPrograms(h)
	if err != nil {
		return nil, 0, err
	}
	ours = len(list.Programs)
	t.revisions[h] = list.Revision
	for i, p := range list.Programs {
		if slices.Contains(t.ownIDs, p.ID) {
			ours = i
		}
		name, known := t.names[p.ID]
		if !known {
			if name, err = programName(p.ID); err != nil {
				return nil, 0, err
			}
			t.names[p.ID] = name // IDs are not reused
		}
		names = append(names, name)
	}
	return names, ours, nil
}

// queryPrograms lists the programs at an attach point. If the device is gone, or is no
// longer a netkit, the list is empty.
func queryPrograms(h attachPoint) (list *link.QueryResult, err error) {
	switch {
	case h.point == attachXDP:
		return queryXDP(h.device)
	case !kernel.HasTCX(): // and netkit is newer
		return &link.QueryResult{}, nil
	}
	o := link.QueryOptions{Target: h.device, Attach: ebpf.AttachType(h.point)}
	for range 3 { // one may come while the kernel is asked
		if list, err = link.QueryPrograms(o); !errors.Is(err, syscall.ENOSPC) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		return &link.QueryResult{Revision: topology.FirstRevision}, nil
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		return &link.QueryResult{}, nil
	}
	return list, err
}

// queryXDP does so for XDP, where a device has one program.
func queryXDP(device int) (*link.QueryResult, error) {
	id, err := topology.XDPProgram(device)
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

// maxNames limits the cache of names.
const maxNames = 1 << 12

// pollBatch is how many attach points are polled at a time, in turn.
const pollBatch = 8

// changed polls whether programs were attached or detached. It polls all attach points soon
// after there was news of BPF programs or links, and otherwise a batch in turn, because a program
// can be attached without a link long after it was loaded.
func (t *programTracker) changed(news bool) (is, all bool, err error) {
	if news {
		t.full = 2 // it may be attached a moment later
	}
	if len(t.queue) == 0 {
		t.queue = slices.Collect(maps.Keys(t.revisions))
	}
	n := min(pollBatch, len(t.queue))
	if t.full > 0 && time.Now().After(t.nextFull) {
		t.full--
		all = true
		t.queue = slices.Collect(maps.Keys(t.revisions))
		n = len(t.queue)
	}
	some := t.queue[:n]
	t.queue = t.queue[n:]
	for _, h := range some {
		revision, err := revisionAt(h)
		if err != nil {
			return false, all, err
		}
		if was, known := t.revisions[h]; known && revision != was {
			return true, all, nil
		}
	}
	return false, all, nil
}

// fullPollRest is the least time between full polls, as a multiple of what one took.
const fullPollRest = 400

// maxFullPoll is what a full poll counts as at most: one that was interrupted took longer than it
// cost.
const maxFullPoll = 10 * time.Millisecond

// revisionAt reads the revision of the programs at an attach point.
func revisionAt(h attachPoint) (uint64, error) {
	if h.point == attachXDP || !kernel.HasTCX() {
		list, err := queryPrograms(h)
		if err != nil {
			return 0, err
		}
		return list.Revision, nil
	}
	return topology.ProgramsRevision(h.device, uint32(h.point))
}

// noteOwnChange accounts for one change that this daemon has made at an attach point. A
// change by somebody else at the same time is still found.
func (t *programTracker) noteOwnChange(p attachment) error {
	h := attachPoint{p.device, p.point}
	was, known := t.revisions[h]
	if !known {
		return nil
	}
	revision, err := revisionAt(h)
	if revision == was+1 {
		t.revisions[h] = revision
	}
	return err
}
