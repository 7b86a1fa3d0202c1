package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/verr"
)

// Whoever can write to the journal decides what undo writes, and undo mostly runs
// as root. So it is only read where nobody else can write to it.

// CheckFolder refuses a folder whose name depends on where a command is run: the
// changes of one place would not be found from another. Empty is [Folder].
// Error: it is relative (exit code 2).
func CheckFolder(folder string) error {
	if folder == "" || filepath.IsAbs(folder) {
		return nil
	}
	return verr.New(verr.Usage, "cannot use "+folder+" for the journal of changes", "it is no absolute path", "begin the path in "+FolderVariable+" with a /")
}

// openIn opens the journal's file in its folder, where that may not be a symbolic
// link, and nobody else may write to either. Errors: one Is os.ErrNotExist; a
// verr.Error with exit code 3: others may write to it.
func openIn(folder string, flags int) (*os.File, error) {
	dir, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, symlinkError(folder, err)
	}
	defer dir.Close()
	if err := checkOwner(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(folder, logName)
	// Neither does it wait for the other end of a pipe.
	fd, err := unix.Openat(int(dir.Fd()), logName, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, symlinkError(name, &os.PathError{Op: "open", Path: name, Err: err})
	}
	file := os.NewFile(uintptr(fd), name)
	if err := checkOwner(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// symlinkError says what is wrong with a symbolic link, which the kernel's error does not.
func symlinkError(name string, err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return unsafe(fmt.Sprintf("%s is a symbolic link, or of another kind than it must be", name), "name the folder itself in "+FolderVariable)
	}
	return err
}

// checkOwner tells whether a folder or a file is ours or root's, and nobody else may
// write to it.
func checkOwner(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: f.Name(), Err: err}
	}
	if kind := st.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
		return unsafe(f.Name()+" is no file", "remove it, or name another folder in "+FolderVariable)
	}
	us := os.Geteuid()
	if st.Uid != 0 && int(st.Uid) != us {
		return unsafe(fmt.Sprintf("%s belongs to uid %d, who could make an undo by uid %d write anything", f.Name(), st.Uid, us),
			fmt.Sprintf("run it as uid %d, or name another folder in %s", st.Uid, FolderVariable))
	}
	if st.Mode&0o022 != 0 {
		return unsafe(fmt.Sprintf("others may write to %s (its mode is %04o), and could make an undo write anything", f.Name(), st.Mode&0o7777),
			"check its contents; if you trust them: chmod go-w "+f.Name())
	}
	return nil
}

func unsafe(why, do string) error {
	return verr.New(verr.Permission, "cannot use the journal of changes", why, do)
}
