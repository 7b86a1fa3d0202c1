package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// orphan is what there is of the fast path of a namespace, without a daemon.
type orphan struct {
	scope   setting.Scope
	journal *journal.Journal
	folder  string
}

// newOrphan prepares one, with a journal, in which nothing is yet.
func newOrphan(t *testing.T, n *netcfg.Namespace) orphan {
	t.Helper()
	scope, err := setting.NetnsScope(n.Path())
	testenv.Must(t, err)
	o := orphan{scope: scope, folder: filepath.Join(node.Root, strconv.FormatUint(scope.Netns.Inode, 10))}
	remove := func() { testenv.Must(t, kernel.RemovePins(o.folder)) }
	remove() // what a test has left that was killed: namespaces' numbers are used again
	t.Cleanup(remove)
	o.journal, err = openJournal(filepath.Join(t.TempDir(), "journal"))
	testenv.Must(t, err)
	t.Cleanup(func() { testenv.Must(t, o.journal.Close()) })
	return o
}

// enable writes that there is a fast path, as a daemon does that is killed at once.
func (o *orphan) enable(t *testing.T) {
	t.Helper()
	tx, err := o.journal.BeginProof(0)
	testenv.Must(t, err)
	_, err = tx.Set("fastpath", setting.Write{Setting: setting.Setting{Backend: "fastpath", Scope: o.scope}, Value: setting.Text("enabled")})
	testenv.Must(t, errors.Join(err, tx.End()))
	if !o.isThere(t) || !isMounted(t, o.folder) {
		t.Fatalf("nothing is mounted in %s, or it does not say whose it is", o.folder)
	}
}

// undo undoes that, and tells what became of it.
func (o *orphan) undo(t *testing.T) journal.EntryState {
	t.Helper()
	outcomes, err := o.journal.Undo(nil, journal.UndoOptions{})
	testenv.Must(t, err)
	if len(outcomes) != 1 {
		t.Fatalf("outcomes: %v", outcomes)
	}
	testenv.Must(t, outcomes[0].Err)
	return outcomes[0].Entry.State
}

// isThere tells whether the folder is: another namespace may have one with the same number.
func (o *orphan) isThere(t *testing.T) bool {
	t.Helper()
	of := new(setting.NetnsID)
	err := host.ReadJSON(filepath.Join(o.folder, "namespace.json"), of)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	testenv.Must(t, err)
	return of.Cookie == o.scope.Netns.Cookie
}

// isMounted tells whether something is mounted below a folder.
func isMounted(t *testing.T, folder string) bool {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	testenv.Must(t, err)
	return strings.Contains(string(mounts), " "+folder+"/")
}

// exists tells whether a file does.
func exists(t *testing.T, file string) bool {
	t.Helper()
	_, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	testenv.Must(t, err)
	return true
}

// What a killed daemon has left is removed when it is undone, also if its namespace is gone; but not if that may only be
// out of sight, or if a daemon has the folder.
func TestUndoWithoutNamespace(t *testing.T) {
	testenv.Root(t)
	for name, c := range map[string]struct{ gone, seesAll, locked bool }{
		"there":                {gone: false, seesAll: true},
		"gone":                 {gone: true, seesAll: true},
		"not in sight":         {gone: true, seesAll: false},
		"gone, with a process": {gone: true, seesAll: true, locked: true},
	} {
		t.Run(name, func(t *testing.T) {
			node.SeeAll(t, c.seesAll)
			w, n := testenv.Namespace(t)
			o := newOrphan(t, n)
			o.enable(t)
			if c.locked {
				lock, err := kernel.LockFolder(t.Context(), o.folder)
				testenv.Must(t, err)
				defer lock.Close()
			}
			want := journal.Undone
			if c.gone {
				n.Close()
				testenv.Must(t, w.Delete(n.Name()))
				want = journal.Vanished
			}
			if state := o.undo(t); state != want {
				t.Errorf("the entry is %v, want %v", state, want)
			}
			left := c.gone && (c.locked || !c.seesAll)
			if there, mounted := o.isThere(t), isMounted(t, o.folder); there != left || mounted != left {
				t.Errorf("the folder is there: %v, with its mount: %v; want %v", there, mounted, left)
			}
		})
	}
}

// The folder of a namespace that is gone is not taken for that of another one that has got its number, and makes way
// for it.
func TestNumberUsedAgain(t *testing.T) {
	testenv.Root(t)
	node.SeeAll(t, false)
	_, n := testenv.Namespace(t)
	o := newOrphan(t, n)
	testenv.Must(t, kernel.MountPins(filepath.Join(o.folder, "bpf")))
	other, left := *o.scope.Netns, filepath.Join(o.folder, "choice.json")
	other.Cookie++
	testenv.Must(t, netcfg.ReplaceJSON(filepath.Join(o.folder, "namespace.json"), other))
	testenv.Must(t, netcfg.ReplaceJSON(left, node.Choice{NAT: true}))
	check := func(enabled bool) {
		t.Helper()
		testenv.InNetns(t, n.Path(), func() error {
			s, err := node.ReadStatus()
			choice, err2 := node.RunningChoice()
			if s.Enabled != enabled || choice != nil {
				t.Errorf("enabled: %v, want %v; the choice is %+v", s.Enabled, enabled, choice)
			}
			return errors.Join(err, err2)
		})
	}
	check(false)
	o.enable(t)
	check(true)
	if exists(t, left) {
		t.Error("the new folder has what was in the old one")
	}
	if state := o.undo(t); state != journal.Undone || exists(t, o.folder) || isMounted(t, o.folder) {
		t.Errorf("the entry is %v, and the folder or its mount may be left", state)
	}
}

// Folders of namespaces that are gone are removed, and no others.
func TestRemoveOrphans(t *testing.T) {
	testenv.Root(t)
	node.SeeAll(t, true)
	n := testenv.Netns(t)
	there, err := setting.NetnsScope(n.Path())
	testenv.Must(t, err)
	root := filepath.Join(t.TempDir(), "root")
	t.Cleanup(func() { testenv.Must(t, kernel.UnmountPins(root)) })
	const none = 3 // the number of no namespace
	for number, of := range map[int]*setting.NetnsID{
		1: {Path: "/run/netns/1", Inode: none, Cookie: none},
		2: {Path: there.Netns.Path, Inode: there.Netns.Inode, Cookie: there.Netns.Cookie + 1},
		3: {Path: "/run/netns/3", Inode: there.Netns.Inode, Cookie: there.Netns.Cookie},
		4: {Path: "/run/netns/4", Inode: none, Cookie: none},
		5: nil, // of an earlier version
	} {
		folder := filepath.Join(root, fmt.Sprint(number))
		testenv.Must(t, kernel.MountPins(filepath.Join(folder, "bpf")))
		testenv.Must(t, kernel.MountPins(filepath.Join(folder, "ipv6", "bpf")))
		if of != nil {
			testenv.Must(t, netcfg.ReplaceJSON(filepath.Join(folder, "namespace.json"), of))
		}
	}
	locked, err := kernel.LockFolder(t.Context(), filepath.Join(root, "4"))
	testenv.Must(t, err)
	defer locked.Close()
	node.RemoveOrphans(root)
	for number, want := range map[int]bool{1: false, 2: false, 3: true, 4: true, 5: true} {
		folder := filepath.Join(root, fmt.Sprint(number))
		if is := exists(t, folder); is != want || isMounted(t, folder) != want {
			t.Errorf("folder %d is there: %v, with its mount: %v; want %v", number, is, isMounted(t, folder), want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(root, "*.old")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}
