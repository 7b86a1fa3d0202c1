package setting

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileBackend is files on disk, each replaced whole: whoever reads one finds the
// old text or the new one. A key is the file's absolute name; a link stays, and
// what it leads to is replaced. The new file has
// the mode, owner and extended attributes of the old one. One that was removed is
// made again with its mode and owner; one that never was, with 0644. A file that has other names too (hard links) is refused: they would keep
// the old text.
func fileBackend(root string) Backend {
	at := func(s Setting) string { return filepath.Join(root, s.Key) }
	return Backend{
		Name:       "file",
		Persistent: true,
		Installed:  true,
		Read: func(s Setting) (Value, error) {
			f, err := openFile(at(s))
			if errors.Is(err, os.ErrNotExist) {
				return Value{}, nil
			}
			if err != nil {
				return Value{}, pathErrno(err)
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			if err != nil {
				return Value{}, pathErrno(err)
			}
			made, err := fileMode(f)
			return Value{Data: data, Present: true, Mode: made}, err
		},
		Write: func(s Setting, v Value) error {
			in, err := openFolder(at(s))
			if errors.Is(err, os.ErrNotExist) && !v.Present {
				return nil
			}
			if err != nil {
				return err
			}
			defer in.Close()
			if !v.Present {
				return in.remove()
			}
			return in.replace(v)
		},
		Sweep: func(s Setting) error {
			in, err := openFolder(at(s))
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			defer in.Close()
			old, err := in.old()
			if err != nil {
				return err
			}
			if old != nil {
				defer old.Close()
			}
			return in.sweep(old)
		},
	}
}

// tempName is the name of the file until it is whole.
func (in folderEntry) tempName() string { return "." + in.name + ".venturi" }

// oldFile is the file that has the name.
type oldFile struct {
	*os.File
	unix.Stat_t
}

// old opens the file of that name, if it is one that can be replaced; nil: none has it.
func (in folderEntry) old() (*oldFile, error) {
	f, st, err := in.open()
	switch {
	case errors.Is(err, unix.ENOENT) && in.link:
		return nil, errors.New("it is a link to what is not there")
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("open: %w", err)
	}
	old := &oldFile{File: f, Stat_t: *st}
	switch {
	case old.Mode&unix.S_IFMT != unix.S_IFREG:
		err = errors.New("it is no ordinary file")
	case old.Nlink > 1:
		err = fmt.Errorf("it has %d names (hard links), of which only one would get the new text", old.Nlink)
	}
	if err != nil {
		old.Close()
		return nil, err
	}
	return old, nil
}

// sweep removes a file that never came to its name: an ordinary one that is ours,
// or was given to the owner of the old one already. Anything else somebody put there.
func (in folderEntry) sweep(old *oldFile) error {
	var st unix.Stat_t
	err := unix.Fstatat(in.fd(), in.tempName(), &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stat %s: %w", in.tempName(), err)
	}
	ours := st.Uid == uint32(os.Geteuid()) || old != nil && st.Uid == old.Uid
	if st.Mode&unix.S_IFMT != unix.S_IFREG || !ours {
		return fmt.Errorf("%s is in the way, and nothing that venturi put there: look at it, and remove it", filepath.Join(in.Name(), in.tempName()))
	}
	if err := unix.Unlinkat(in.fd(), in.tempName(), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", in.tempName(), err)
	}
	return nil
}

// remove takes the file away, and its name from the disk.
func (in folderEntry) remove() error {
	old, err := in.old()
	if err != nil || old == nil {
		return err
	}
	defer old.Close()
	if err := unix.Unlinkat(in.fd(), in.name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove: %w", err)
	}
	return in.Sync()
}

// replace puts a file in the place of the old one in one step, and on disk.
func (in folderEntry) replace(v Value) (err error) {
	old, err := in.old()
	if err != nil {
		return err
	}
	if old != nil {
		defer old.Close()
	}
	if err := in.sweep(old); err != nil {
		return err
	}
	fd, err := unix.Openat(in.fd(), in.tempName(), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("make %s: %w", in.tempName(), err)
	}
	f := os.NewFile(uintptr(fd), in.tempName())
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unlinkat(in.fd(), in.tempName(), 0))
		}
	}()
	_, err = f.Write(v.Data)
	if err == nil && old == nil {
		err = v.Mode.apply(f)
	} else if err == nil {
		err = copyOwnership(f, old)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return pathErrno(err)
	}
	if err := unix.Renameat(in.fd(), in.tempName(), in.fd(), in.name); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return in.Sync()
}

// copyOwnership gives a new file the owner, mode and attributes of the old one, in this
// order: each takes away something of those after it.
func copyOwnership(f *os.File, old *oldFile) error {
	if err := f.Chown(int(old.Uid), int(old.Gid)); err != nil {
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), old.Mode&0o7777); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	return copyAttributes(f, old.File)
}
