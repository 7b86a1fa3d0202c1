package journal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// A journal that somebody else can write to is neither read nor added to.
func TestFolderOfOthers(t *testing.T) {
	other := 12345 // whoever that is
	for _, c := range []struct {
		name  string
		spoil func(folder, file string) error
		code  int
		root  bool
	}{
		{"as it should be", func(string, string) error { return nil }, verr.OK, false},
		{"a folder that all may write to", func(folder, _ string) error { return os.Chmod(folder, 0o777) }, verr.Permission, false},
		{"a file that the group may write to", func(_, file string) error { return os.Chmod(file, 0o660) }, verr.Permission, false},
		{"a folder of somebody else", func(folder, _ string) error { return os.Chown(folder, other, -1) }, verr.Permission, true},
		{"a file of somebody else", func(_, file string) error { return os.Chown(file, other, -1) }, verr.Permission, true},
		{"a link in the file's place", func(folder, file string) error {
			aim := filepath.Join(filepath.Dir(folder), "aim")
			if err := os.Rename(file, aim); err != nil {
				return err
			}
			return os.Symlink(aim, file)
		}, verr.Permission, false},
		{"a link in the folder's place", func(folder, _ string) error {
			if err := os.Rename(folder, folder+"-aim"); err != nil {
				return err
			}
			return os.Symlink(folder+"-aim", folder)
		}, verr.Permission, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			_, o := fixture(t, map[string]string{"/a": "one"})
			j := open(t, o)
			set(t, beginTx(t, j), "/a", "two")
			j.Close()
			if err := c.spoil(o.Folder, filepath.Join(o.Folder, logName)); err != nil {
				t.Fatal(err)
			}
			_, look := ReadHistory(o.Folder)
			j, err := Open(o)
			if err == nil {
				j.Close()
			}
			if verr.Code(err) != c.code || verr.Code(look) != c.code {
				t.Errorf("open it: %v; look at it: %v", err, look)
			}
		})
	}
}

// The names of all folders on the way to a new journal are made durable, as far as
// this user may; of its own folder, that must be possible.
func TestFolderIsDurable(t *testing.T) {
	var synced []string
	denied, full, unsynced := "/var", "", ""
	sync := func(folder string) error {
		synced = append(synced, folder)
		switch folder {
		case denied:
			return &os.PathError{Op: "open", Path: folder, Err: unix.EACCES}
		case full:
			return unix.EIO
		case unsynced:
			return unix.EINVAL
		}
		return nil
	}
	want := []string{"/var/lib/venturi/journal", "/var/lib/venturi", "/var/lib", "/var", "/"}
	if err := syncParents(want[0], sync); err != nil || !slices.Equal(synced, want) {
		t.Errorf("synced %v, %v; want %v", synced, err, want)
	}
	for _, unsynced = range want {
		if err := syncParents(want[0], sync); err != nil {
			t.Errorf("the file system of %s does not sync folders: %v", unsynced, err)
		}
	}
	for _, folder := range []string{"/var/lib/venturi/journal", "/var/lib"} {
		full = folder
		if err := syncParents(want[0], sync); !errors.Is(err, unix.EIO) {
			t.Errorf("%s cannot be synced: %v", folder, err)
		}
	}
	denied = want[0]
	if err := syncParents(want[0], sync); !errors.Is(err, os.ErrPermission) {
		t.Errorf("its own folder cannot be synced: %v", err)
	}
}

// Whoever may add the first record does so, not only who made the file: that one may have
// been killed, or not have got the lock.
func TestFolderIsDurableBeforeTheFirstRecord(t *testing.T) {
	folder := filepath.Join(shm(t), "journal")
	for _, c := range []struct {
		what   string
		synced bool
		first  string // what the file holds afterwards
	}{
		{"without a file", true, ""}, {"with an empty file", true, "x"}, {"with a record", false, "x"},
	} {
		synced := false
		l, _, err := openLogBy(folder, func(string) error { synced = true; return nil })
		if err != nil || synced != c.synced {
			t.Fatalf("%s: synced %v, %v", c.what, synced, err)
		}
		if err := errors.Join(l.close(), os.WriteFile(filepath.Join(folder, logName), []byte(c.first), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFolderThatIsRelative(t *testing.T) {
	t.Chdir(t.TempDir())
	_, err := Open(Options{Folder: "x", Settings: setting.NewSettings(), Boot: "this"})
	_, look := ReadHistory("x")
	if _, made := os.Stat("x"); verr.Code(err) != verr.Usage || verr.Code(look) != verr.Usage || made == nil {
		t.Errorf("open it: %v; look at it: %v", err, look)
	}
}
