package setting

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilePlanted: what somebody put where the unfinished file goes is neither
// written through nor removed.
func TestFilePlanted(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	settings := NewSettings(Backends(root)...)
	s := Setting{Backend: "file", Key: "/x"}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(file, want string) {
		t.Helper()
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Fatalf("%s holds %q, %v; want %q", file, text, err, want)
		}
	}
	write(at("victim"), "secret")
	write(at("x"), "old")
	if err := os.Symlink(at("victim"), at(".x.venturi")); err != nil {
		t.Fatal(err)
	}
	if err := settings.Write(s, Text("new")); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("write beside a planted link: %v", err)
	}
	if err := settings.Sweep(s); err == nil {
		t.Error("swept a link of somebody else's")
	}
	holds(at("victim"), "secret")
	holds(at("x"), "old")
	if err := os.Remove(at(".x.venturi")); err != nil {
		t.Fatal(err)
	}
	write(at(".x.venturi"), "half")
	if err := settings.Write(s, Text("new")); err != nil {
		t.Fatal(err)
	}
	holds(at("x"), "new")

	if err := os.Link(at("x"), at("y")); err != nil {
		t.Fatal(err)
	}
	for _, v := range []Value{Text("newer"), {}} {
		if err := settings.Write(s, v); err == nil || !strings.Contains(err.Error(), "2 names") {
			t.Errorf("write %q to a file of two names: %v", v, err)
		}
	}
	holds(at("x"), "new")
	if err := os.Remove(at("y")); err != nil {
		t.Fatal(err)
	}
	if err := settings.Write(s, Value{}); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(root)
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestFileAttributes: a file that is replaced keeps its mode, and its extended
// attributes, an access list among them.
func TestFileAttributes(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "x")
	if err := os.WriteFile(file, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	// Version 2; owner rw, user 12 r, group r, mask r, others nothing.
	list := binary.LittleEndian.AppendUint32(nil, 2)
	for _, e := range [][3]uint32{{1, 6, ^uint32(0)}, {2, 4, 12}, {4, 4, ^uint32(0)}, {16, 4, ^uint32(0)}, {32, 0, ^uint32(0)}} {
		list = binary.LittleEndian.AppendUint16(list, uint16(e[0]))
		list = binary.LittleEndian.AppendUint16(list, uint16(e[1]))
		list = binary.LittleEndian.AppendUint32(list, e[2])
	}
	set := map[string]string{"user.note": "kept", accessList: string(list)}
	for name, value := range set {
		err := unix.Setxattr(file, name, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) {
			delete(set, name) // this file system has none
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if len(set) == 0 {
		t.Skip("the file system of temporary files has no extended attributes")
	}
	if err := NewSettings(Backends(root)...).Write(Setting{Backend: "file", Key: "/x"}, Text("new")); err != nil {
		t.Fatal(err)
	}
	for name, want := range set {
		b := make([]byte, 256)
		n, err := unix.Getxattr(file, name, b)
		if err != nil || string(b[:n]) != want {
			t.Errorf("%s is %q, %v; want %q", name, b[:max(n, 0)], err, want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// TestFileMadeAnew: a file that was removed comes back with its mode and owner,
// also for who knows of it by the journal only.
func TestFileMadeAnew(t *testing.T) {
	root := t.TempDir()
	settings, s, file := NewSettings(Backends(root)...), Setting{Backend: "file", Key: "/x"}, filepath.Join(root, "x")
	for mode, text := range map[os.FileMode]string{0o600: "secret", 0o644 | os.ModeSetgid: "", 0o755: "\xff"} {
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := errors.Join(os.Chown(file, 12, 34), os.Chmod(file, mode)); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		old, err := settings.Read(s)
		if err != nil || !old.Equal(Text(text)) {
			t.Fatalf("%q, %v", old, err)
		}
		journal, err := json.Marshal(old)
		if err != nil {
			t.Fatal(err)
		}
		var again Value
		if err := errors.Join(settings.Write(s, Value{}), json.Unmarshal(journal, &again), settings.Write(s, again)); err != nil {
			t.Fatal(err)
		}
		after, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		was, is := before.Sys().(*syscall.Stat_t), after.Sys().(*syscall.Stat_t)
		if now, err := os.ReadFile(file); err != nil || string(now) != text || is.Mode != was.Mode || is.Uid != was.Uid || is.Gid != was.Gid {
			t.Errorf("it was %v of %d:%d, and is %v of %d:%d with %q, %v; the journal says %s", before.Mode(), was.Uid, was.Gid, after.Mode(), is.Uid, is.Gid, now, err, journal)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	// Of what any new file would be like nothing is said, as journals always did.
	if err := settings.Write(s, Text("plain")); err != nil {
		t.Fatal(err)
	}
	v, err := settings.Read(s)
	if text, bad := json.Marshal(v); errors.Join(err, bad) != nil || string(text) != `"plain"` {
		t.Errorf("the journal says %s, %v", text, errors.Join(err, bad))
	}
	if err := settings.Write(Setting{Backend: "file", Key: "/y"}, Value{Present: true, Mode: &FileMode{Mode: "rw"}}); err == nil {
		t.Error("made a file of mode rw")
	}
}

// TestFileLinks: links are followed, but those of another user only to what that
// user owns.
func TestFileLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const bob, eve = 12345, 12346
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for folder, owner := range map[string]int{"etc": 0, "bob": bob, "eve": eve} {
		must(errors.Join(os.Mkdir(at(folder), 0o755), os.Chown(at(folder), owner, owner)))
		must(errors.Join(os.WriteFile(at(folder+"/file"), []byte("old"), 0o600), os.Chown(at(folder+"/file"), owner, owner)))
	}
	link := func(target, name string, owner int) {
		t.Helper()
		must(errors.Join(os.Symlink(target, at(name)), os.Lchown(at(name), owner, owner)))
	}
	link("../eve/file", "etc/ours", 0)       // root may lead anywhere
	link("file", "bob/own", bob)             // and bob to what is his,
	link(at("bob"), "bob/self", bob)         // by any way,
	link("../etc/file", "bob/out", bob)      // but not to what is root's,
	link(at("eve/file"), "bob/other", bob)   // or eve's,
	link(at("etc"), "bob/folder", bob)       // nor to a folder,
	link("../eve/file", "bob/given", eve)    // whoever made the link in it
	link("../bob/other", "eve/two", eve)     // and by one of another either,
	link("../etc/made", "bob/new", bob)      // nor have a file made.
	link("missing", "etc/dangling", 0)       // root's that leads nowhere
	must(os.Chown(at("eve/file"), bob, bob)) // which bob could have linked to there
	must(os.Symlink("loop", at("loop")))
	settings := NewSettings(Backends(root)...)
	for key, good := range map[string]bool{
		"/etc/file": true, "/bob/file": true, "/etc/ours": true, "/bob/own": true, "/bob/self/file": true, "/bob/self/self/own": true,
		"/bob/out": false, "/bob/other": false, "/bob/folder/file": false, "/bob/given": false, "/eve/two": false, "/bob/new": false,
		"/etc/dangling": false, "/loop": false, "/bob/file/x": false,
	} {
		s := Setting{Backend: "file", Key: key}
		v, readErr := settings.Read(s)
		err := settings.Write(s, Text("new"))
		if (err == nil) != good || good && (readErr != nil || !v.Equal(Text("old"))) || !good && v.Present {
			t.Errorf("%s: read %q, %v; write: %v; want success: %v", key, v, readErr, err, good)
		}
		if !good {
			if err := settings.Sweep(s); err == nil && key != "/etc/dangling" {
				t.Errorf("%s: swept", key)
			}
			continue
		}
		if v, err := settings.Read(s); err != nil || !v.Equal(Text("new")) {
			t.Errorf("%s: it holds %q, %v", key, v, err)
		}
		must(settings.Write(s, Text("old")))
	}
	if _, err := os.Lstat(at("etc/made")); err == nil {
		t.Error("a link of bob's had a file made in etc")
	}
	if info, err := os.Lstat(at("bob/own")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("bob's link is %v, %v", info, err)
	}
}
