package journal

import (
	"maps"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
)

// Somebody else's value is seen without opening the journal: on top, beneath a
// later write, and not where it is the old one, or cannot be read.
func TestConflictsLook(t *testing.T) {
	root, o := fixture(t, map[string]string{"/etc/a": "1", "/etc/b": "1", "/etc/c": "1", "/etc/d": "1"})
	o.Sight = host.Reader{}.Sight() // which is what a look has
	j := open(t, o)
	tx := beginTx(t, j)
	for _, name := range []string{"/etc/a", "/etc/b", "/etc/c", "/etc/d"} {
		set(t, tx, name, "2")
	}
	put(t, root, "/etc/a", "theirs")
	put(t, root, "/etc/b", "theirs")
	put(t, root, "/etc/d", "1")
	set(t, tx, "/etc/b", "3")
	j.Close()
	h, err := ReadHistory(o.Folder)
	if err != nil {
		t.Fatal(err)
	}
	found := h.Conflicts(o.Settings)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []int{1, 2}) {
		t.Fatalf("writes %v, want 1 (on top) and 2 (beneath)", got)
	}
	for id, c := range found {
		if c.Now.String() != "theirs" || c.Entry.ID != id {
			t.Errorf("%d: %v", id, c)
		}
	}
	if state := h.Txns[0].Entries[0].State; state != Applied {
		t.Errorf("looking made it %s", state)
	}
}
