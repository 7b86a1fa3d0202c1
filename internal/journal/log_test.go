package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

func set(t *testing.T, tx *Tx, name, text string) *Entry {
	t.Helper()
	e, err := tx.Set("a.knob", setting.Write{Setting: file(name), Value: setting.Text(text)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t *testing.T, o Options) *Journal {
	t.Helper()
	j, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func beginTx(t *testing.T, j *Journal) *Tx {
	t.Helper()
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func contents(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A journal that was cut off at any byte opens, undoes what it still tells of,
// says what is damaged, and goes on.
func TestCutAnywhere(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one"})
	o.Folder = shm(t)
	j := open(t, o)
	tx := beginTx(t, j)
	set(t, tx, "/a", "two")
	set(t, tx, "/a", "three")
	if err := tx.End(); err != nil {
		t.Fatal(err)
	}
	j.Close()
	name := filepath.Join(o.Folder, logName)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(whole) + 1 {
		if err := errors.Join(os.WriteFile(name, whole[:at], 0o600), os.WriteFile(filepath.Join(root, "/a"), []byte("three"), 0o600)); err != nil {
			t.Fatal(err)
		}
		j, err := Open(o)
		if err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
		rest := whole[bytes.LastIndexByte(whole[:at], '\n')+1 : at]
		_, bad := decode(rest)
		if damaged := j.History().Damaged; len(rest) > 0 && bad != nil && (len(damaged) != 1 || !damaged[0].Last) || (len(rest) == 0 || bad == nil) && len(damaged) > 0 {
			t.Errorf("cut at %d: it tells of the damage %v", at, damaged)
		}
		known := strings.Count(string(whole[:at]), `{"intent"`)
		if bad != nil && bytes.Contains(rest, []byte(`{"intent"`)) {
			known--
		}
		outcomes, err := j.Undo(nil, UndoOptions{})
		if err != nil || len(outcomes) != known {
			t.Fatalf("cut at %d: %d outcomes for %d writes, %v", at, len(outcomes), known, err)
		}
		// The second write is what stands: who knows of the first alone finds
		// somebody else's value, and leaves it.
		want := []string{"three", "three", "one"}[known]
		if got := contents(t, root, "/a"); got != want {
			t.Errorf("cut at %d, with %d writes known: it holds %q, want %q", at, known, got, want)
		}
		set(t, beginTx(t, j), "/a", "four")
		j.Close()
		h, err := ReadHistory(o.Folder)
		if last := h.Txns[len(h.Txns)-1]; err != nil || len(last.Entries) != 1 || last.Entries[0].State != Applied {
			t.Errorf("cut at %d: what was added is not there: %+v, %v", at, last, err)
		}
		for _, d := range h.Damaged {
			if !d.Acknowledged || len(h.Inconsistent) > 0 {
				t.Errorf("cut at %d: it will be told of for ever: %v, %v", at, d, h.Inconsistent)
			}
		}
	}
}

// One line that is damaged costs that line alone.
func TestDamagedInTheMiddle(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one", "/b": "uno"})
	j := open(t, o)
	tx := beginTx(t, j)
	set(t, tx, "/a", "two")
	set(t, tx, "/b", "due")
	j.Close()
	name := filepath.Join(o.Folder, logName)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(text, []byte(`"two"`))
	text[at+1] = 'T'
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, o)
	h := j.History()
	if len(h.Damaged) != 1 || h.Damaged[0].Last || h.Damaged[0].Acknowledged || !strings.Contains(h.Damaged[0].String(), "checksum") || len(h.Inconsistent) == 0 {
		t.Errorf("it tells of %v and %v", h.Damaged, h.Inconsistent)
	}
	if _, err := j.Undo(nil, UndoOptions{}); err != nil {
		t.Fatal(err)
	}
	if a, b := contents(t, root, "/a"), contents(t, root, "/b"); a != "two" || b != "uno" {
		t.Errorf("a is %q, of which nothing is known any more, and b is %q", a, b)
	}
}

// Whatever a log holds, it can be read; and what was added to it is there.
func FuzzParse(f *testing.F) {
	line, err := encode(record{Intent: &intentRecord{Txn: 1, Entry: 1, Setting: file("/a"), Old: setting.Text("one"), New: setting.Value{Data: []byte{0xff}, Present: true}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line, "two")
	f.Add(slices.Concat(line, sealed(`{"intent":{"txn":1,"entry":2,"old":{"text":"x","made":{"mode":"0640","uid":1,"gid":2}},"new":null}}`)), "")
	f.Add(line[:len(line)/2], "")
	f.Add([]byte("00000000 {}\n\n00000000 null"), "\x00\xfe")
	for _, text := range []string{`{}`, `{"closed":{"entry":9,"hand_on":[{"entry":9}]}}`, `{"turned":{"entry":1}}`, `{"intent":{"cell":{"place":{"device":{}}}}}`} {
		f.Add(slices.Concat(line, sealed(text)), "three")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		h := replay(text)
		h.next()
		for _, e := range h.entries {
			h.nextChange(e, e.id)
		}
		// The same with a checksum that fits, so that what is in it is looked at.
		replay(slices.Concat(line, sealed(string(text))))

		old := setting.Value{Data: []byte(value), Present: true}
		more, err := encode(record{Intent: &intentRecord{Txn: 1, Entry: 7, Setting: setting.Setting{Backend: "file", Key: "/b"}, Old: old}})
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 0 && text[len(text)-1] != '\n' {
			text = append(text, '\n')
		}
		before, damaged := parse(text)
		after, still := parse(append(text, more...))
		if len(after) != len(before)+1 || len(still) != len(damaged) {
			t.Fatalf("%d records and %d damaged, then %d and %d", len(before), len(damaged), len(after), len(still))
		}
		if got := after[len(after)-1].Intent; got == nil || !got.Old.Equal(old) || got.New.Present {
			t.Errorf("it was %q, and is read as %+v", value, got)
		}
	})
}

func TestBusy(t *testing.T) {
	_, o := fixture(t, nil)
	j := open(t, o)
	if _, err := Open(o); verr.Code(err) != verr.Busy {
		t.Errorf("a second one opened it too: %v", err)
	}
	if _, err := ReadHistory(o.Folder); err != nil {
		t.Errorf("look at it meanwhile: %v", err)
	}
	time.AfterFunc(50*time.Millisecond, func() { j.Close() })
	o.Wait = 10 * time.Second
	open(t, o)
}

// A folder that cannot be written to: nothing is changed, and the answer says
// what to do.
func TestFolderOfNobody(t *testing.T) {
	_, o := fixture(t, map[string]string{"/a": "one"})
	o.Folder = "/proc/self/journal" // there nobody can write
	_, err := Open(o)
	if e := new(verr.Error); !errors.As(err, &e) || !strings.Contains(e.Hint, FolderVariable) && e.Code != verr.Permission {
		t.Errorf("%v", err)
	}
}

// full makes a folder on a small disk of its own.
func full(t *testing.T, bytes string) string {
	t.Helper()
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "mode=0700,size="+bytes); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// fill takes all the room that a disk has left.
func fill(t *testing.T, folder string) {
	t.Helper()
	f, err := os.Create(filepath.Join(folder, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// On a full disk nothing is written any more, and all that was is undone.
func TestFullDisk(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one", "/b": "uno"})
	o.Folder = full(t, "4m")
	j := open(t, o)
	tx := beginTx(t, j)
	set(t, tx, "/a", "two")
	fill(t, o.Folder)
	// The room that is kept may do for one more.
	var err error
	last := "uno"
	for i := 0; i < 3 && err == nil; i++ {
		if i > 0 {
			last = contents(t, root, "/b")
		}
		_, err = tx.Set("a.knob", setting.Write{Setting: file("/b"), Value: setting.Text(strings.Repeat(string(rune('a'+i)), 8192))})
	}
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "nothing was written") || contents(t, root, "/b") != last {
		t.Errorf("%v; it holds %.20q", err, contents(t, root, "/b"))
	}
	j.Close()
	j = open(t, o)
	outcomes, err := j.Undo(nil, UndoOptions{})
	for _, out := range outcomes {
		err = errors.Join(err, out.Err)
	}
	if err != nil || contents(t, root, "/a") != "one" || contents(t, root, "/b") != "uno" {
		t.Errorf("%v; they hold %q and %.20q", err, contents(t, root, "/a"), contents(t, root, "/b"))
	}
	j.Close()
	if h, err := ReadHistory(o.Folder); err != nil || h.Txns[0].Open() || len(h.Damaged) > 0 {
		t.Errorf("%+v, %v", h, err)
	}
}

// A disk that has become read-only: nothing is changed, what was can be looked at, and
// the answer says why it cannot be undone.
func TestReadOnlyDisk(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one"})
	o.Folder = full(t, "4m")
	j := open(t, o)
	set(t, beginTx(t, j), "/a", "two")
	j.Close()
	if err := unix.Mount("", o.Folder, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err := Open(o)
	if e := new(verr.Error); !errors.As(err, &e) || !errors.Is(err, unix.EROFS) || e.Code != verr.Failed || !strings.Contains(e.Hint, FolderVariable) {
		t.Errorf("%v", err)
	}
	if h, err := ReadHistory(o.Folder); err != nil || len(h.Txns) != 1 || !h.Txns[0].Open() || contents(t, root, "/a") != "two" {
		t.Errorf("%+v, %v; it holds %q", h, err, contents(t, root, "/a"))
	}
	if err := unix.Mount("", o.Folder, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if outcomes, err := open(t, o).Undo(nil, UndoOptions{}); err != nil || len(outcomes) != 1 || contents(t, root, "/a") != "one" {
		t.Errorf("%v, %v; it holds %q", outcomes, err, contents(t, root, "/a"))
	}
}

// A disk that fails at the mark: what was written is taken back.
func TestDiskFailsAtTheMark(t *testing.T) {
	root, o := fixture(t, map[string]string{"/a": "one"})
	o.Folder = full(t, "4m")
	var j *Journal
	o.OnPoint = func(p CrashPoint) {
		if p == PointWritten {
			j.log.file.Close()
		}
	}
	j = open(t, o)
	_, err := beginTx(t, j).Set("a.knob", setting.Write{Setting: file("/a"), Value: setting.Text("two")})
	if err == nil || !strings.Contains(err.Error(), "the old value stands again") || contents(t, root, "/a") != "one" {
		t.Errorf("%v; it holds %q", err, contents(t, root, "/a"))
	}
	o.OnPoint = nil
	j = open(t, o)
	if outcomes, err := j.Undo(nil, UndoOptions{}); err != nil || len(outcomes) != 1 || outcomes[0].Err != nil || outcomes[0].Entry.State != Undone {
		t.Errorf("%v, %v", outcomes, err)
	}
}

// A signal that comes while room is kept is no reason to refuse a change.
func TestInterrupted(t *testing.T) {
	for _, last := range []error{nil, unix.ENOSPC} {
		answers := []error{unix.EINTR, unix.EINTR, last}
		err := retryInterrupted(func() error {
			answer := answers[0]
			answers = answers[1:]
			return answer
		})
		if !errors.Is(err, last) || len(answers) > 0 {
			t.Errorf("it ended with %v, and %d answers to come", err, len(answers))
		}
	}
}
