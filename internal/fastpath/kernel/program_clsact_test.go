package kernel_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// sharers are two fast paths of a namespace.
type sharers struct {
	n    *netcfg.Namespace
	pins [2]string
}

func newSharers(t *testing.T) (s sharers) {
	t.Helper()
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	t.Cleanup(n.Close)
	s.n = n
	for i := range s.pins {
		s.pins[i] = filepath.Join(pinFolder(t), "in_1")
	}
	return s
}

// end ends the one of them, for good.
func (s *sharers) end(i int) error {
	return errors.Join(kernel.DetachProgram(s.n, s.pins[i]), kernel.RemoveClsacts(s.n))
}

// has tells whether the device has clsact.
func (s *sharers) has(t *testing.T) bool {
	t.Helper()
	qdiscs, _ := tc(t, s.n)
	return slices.Contains(qdiscs, "clsact")
}

// foreignClsact is that of somebody else.
var foreignClsact = &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: device1, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}

// addClsact adds clsact as somebody else.
func (s *sharers) addClsact() error {
	return host.Do(s.n.Path(), func() error { return netlink.QdiscAdd(foreignClsact) })
}

// delClsact removes it again. The kernel refuses that while a filter is being added.
func (s *sharers) delClsact() error {
	return host.Do(s.n.Path(), func() error {
		err := netlink.QdiscDel(foreignClsact)
		for end := time.Now().Add(testenv.Timeout); errors.Is(err, unix.EBUSY) && time.Now().Before(end); {
			err = netlink.QdiscDel(foreignClsact)
		}
		return err
	})
}

// Of two fast paths that share clsact, whichever ends last removes it, unless somebody else has added it.
func TestClsactShared(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	for _, theirs := range []bool{false, true} {
		if theirs {
			testenv.Must(t, s.addClsact())
		}
		for first := range s.pins {
			for _, pin := range s.pins {
				testenv.Must(t, kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, pin))
			}
			testenv.Must(t, s.end(first))
			if _, filters := tc(t, s.n); len(filters) != 1 {
				t.Errorf("after the end of one there are filters %v", filters)
			}
			testenv.Must(t, s.end(1-first))
			if s.has(t) != theirs {
				t.Errorf("clsact of somebody else: %v; is there in the end: %v", theirs, s.has(t))
			}
		}
	}
}

// A clsact that somebody else has made anew, or replaced, is his, even if both fast paths had attached their
// programs before, or attach them again. One that was removed and that they have made anew themselves is theirs.
func TestClsactMadeAnew(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	attachBoth := func() {
		for _, pin := range s.pins {
			testenv.Must(t, kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, pin))
		}
	}
	for name, by := range map[string]struct {
		do   func() error
		left bool
	}{
		"removed and added": {func() error { return errors.Join(s.delClsact(), s.addClsact()) }, true},
		"replaced":          {func() error { return host.Do(s.n.Path(), func() error { return netlink.QdiscReplace(foreignClsact) }) }, true},
		"removed":           {s.delClsact, false},
		"added again":       {func() error { _ = s.addClsact(); return nil }, false}, // it is there
	} {
		for _, again := range []bool{false, true} {
			attachBoth()
			testenv.Must(t, by.do())
			if again {
				attachBoth()
			}
			testenv.Must(t, errors.Join(s.end(0), s.end(1)))
			if s.has(t) != by.left {
				t.Errorf("%s, and attached again: %v; is there in the end: %v", name, again, s.has(t))
			}
			if s.has(t) {
				testenv.Must(t, s.delClsact())
			}
		}
	}
}

// A clsact that an earlier version has added, and recorded in a file, is removed by whichever fast path ends last.
// Nothing becomes of a record of one that is gone, or whose device is.
func TestClsactRecorded(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	folder := t.TempDir()
	for _, attached := range []bool{false, true} {
		testenv.Must(t, s.addClsact())
		if attached {
			testenv.Must(t, kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, s.pins[0]))
		}
		for _, record := range []string{"clsact_1", "clsact_4711", "clsact_none"} {
			testenv.Must(t, os.Symlink("made", filepath.Join(folder, record)))
		}
		testenv.Must(t, kernel.MarkClsacts(s.n, folder))
		left, err := os.ReadDir(folder)
		testenv.Must(t, err)
		if len(left) != 1 || left[0].Name() != "clsact_none" {
			t.Errorf("the records %v are left", left)
		}
		testenv.Must(t, os.Remove(filepath.Join(folder, "clsact_none")))
		if !s.has(t) {
			t.Error("clsact is removed already")
		}
		testenv.Must(t, s.end(0))
		if s.has(t) {
			t.Errorf("clsact is left; with a filter: %v", attached)
		}
	}
	testenv.Must(t, os.Symlink("made", filepath.Join(folder, "clsact_1")))
	testenv.Must(t, kernel.MarkClsacts(s.n, folder))
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || s.has(t) {
		t.Errorf("without clsact, the records %v are left, %v; it is there now: %v", left, err, s.has(t))
	}
}

// It makes no difference when they begin and end at the same time, nor when somebody else adds clsact just
// then.
func TestClsactSharedAtOnce(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	defer netcfg.ExpediteRCU()()
	first := 0
	for round := range 100 {
		var theirs bool
		var begin, end errgroup.Group
		for _, pin := range s.pins {
			begin.Go(func() error { return kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, pin) })
		}
		begin.Go(func() error {
			err := s.addClsact()
			theirs = err == nil
			if errors.Is(err, unix.EEXIST) {
				return nil
			}
			return err
		})
		testenv.Must(t, begin.Wait())
		if _, filters := tc(t, s.n); len(filters) != len(s.pins) {
			t.Fatalf("in round %d there are filters %v", round, filters)
		}
		for i := range s.pins {
			end.Go(func() error { return s.end(i) })
		}
		testenv.Must(t, end.Wait())
		if s.has(t) != theirs {
			t.Fatalf("in round %d, clsact of somebody else: %v; is there in the end: %v", round, theirs, s.has(t))
		}
		if theirs {
			first++
			testenv.Must(t, s.delClsact())
		}
	}
	t.Logf("somebody else was first in %d rounds", first)
}

// That others ask something of clsact while it is to be removed makes it nobody else's: it is removed a little later.
func TestClsactBusy(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	defer netcfg.ExpediteRCU()()
	for round := range 30 {
		testenv.Must(t, kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, s.pins[0]))
		testenv.Must(t, kernel.DetachProgram(s.n, s.pins[0]))
		ctx, cancel := context.WithCancel(t.Context())
		var asking errgroup.Group
		asking.Go(func() error {
			return host.Do(s.n.Path(), func() error {
				for ctx.Err() == nil {
					if withForeignFilter(p, netlink.FilterDel) == nil {
						return errors.New("a filter was removed that nobody had added")
					}
				}
				return nil
			})
		})
		err := kernel.RemoveClsacts(s.n)
		cancel()
		testenv.Must(t, errors.Join(err, asking.Wait()))
		if s.has(t) {
			t.Fatalf("clsact is left in round %d", round)
		}
	}
}

// Of a clsact of somebody else, nothing is announced when those of fast paths are removed.
func TestClsactUnannounced(t *testing.T) {
	s := newSharers(t)
	testenv.Must(t, s.addClsact())
	var news *nl.NetlinkSocket
	testenv.InNetns(t, s.n.Path(), func() (err error) {
		news, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_TC)
		return err
	})
	defer news.Close()
	testenv.Must(t, news.SetReceiveTimeout(&unix.Timeval{Sec: int64(testenv.Timeout.Seconds())}))
	testenv.Must(t, kernel.RemoveClsacts(s.n))
	testenv.Must(t, s.delClsact())
	for {
		messages, _, err := news.Receive()
		testenv.Must(t, err)
		for _, m := range messages {
			if m.Header.Type == unix.RTM_DELQDISC {
				return
			}
			t.Errorf("message %d about a qdisc: %v", m.Header.Type, m.Data)
		}
	}
}

// A qdisc of another kind, which somebody has put in the place of clsact, stays, even if he does that while clsact is
// being removed.
func TestClsactReplaced(t *testing.T) {
	s := newSharers(t)
	ingress := &netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: device1, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_INGRESS}}
	replace := func() {
		testenv.Must(t, s.delClsact())
		testenv.Must(t, host.Do(s.n.Path(), func() error { return netlink.QdiscAdd(ingress) }))
	}
	for when, remove := range map[string]func() error{
		"before": func() error {
			replace()
			return kernel.RemoveClsacts(s.n)
		},
		"meanwhile": func() error { return s.n.Do(func() error { return kernel.RemoveClsact(device1, replace) }) },
	} {
		testenv.Must(t, kernel.AttachProgram(s.n, programNamed(t, "first"), device1, kernel.FilterIngress, s.pins[0]))
		testenv.Must(t, kernel.DetachProgram(s.n, s.pins[0]))
		testenv.Must(t, remove())
		if qdiscs, _ := tc(t, s.n); !slices.Contains(qdiscs, "ingress") {
			t.Errorf("replaced %s, the qdiscs are %v", when, qdiscs)
			continue
		}
		testenv.Must(t, host.Do(s.n.Path(), func() error { return netlink.QdiscDel(ingress) }))
	}
}

// Where clsact is removed while a filter is to be added, there is no place for it: as if the device were
// gone, for that is announced.
func TestClsactRemovedMeanwhile(t *testing.T) {
	s := newSharers(t)
	p := programNamed(t, "first")
	defer netcfg.ExpediteRCU()()
	var attached, gone int
	for range 100 {
		testenv.Must(t, s.addClsact())
		var both errgroup.Group
		both.Go(s.delClsact)
		err := kernel.AttachProgram(s.n, p, device1, kernel.FilterIngress, s.pins[0])
		testenv.Must(t, both.Wait())
		switch {
		case errors.Is(err, host.ErrGone):
			gone++
		case err != nil:
			t.Fatal(err)
		default:
			attached++
		}
		testenv.Must(t, s.end(0))
		if s.has(t) {
			t.Fatal("clsact is left")
		}
	}
	t.Logf("attached %d times, and %d times there was no place", attached, gone)
}
