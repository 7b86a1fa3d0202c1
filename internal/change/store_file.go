package change

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fileStore is files on disk, each replaced whole: whoever reads one finds the
// old text or the new one. A key is the file's absolute name. The new file has
// the mode and owner of the old one; one that was absent is made with 0644.
func fileStore(root string) Store {
	real := func(c Cell) string {
		file := filepath.Join(root, c.Key)
		if target, err := filepath.EvalSymlinks(file); err == nil {
			return target // the link stays
		}
		return file
	}
	return Store{
		Name:  "file",
		Lasts: true,
		Read: func(c Cell) (Value, error) {
			data, err := os.ReadFile(filepath.Join(root, c.Key))
			if errors.Is(err, os.ErrNotExist) {
				return Value{}, nil
			}
			if err != nil {
				return Value{}, why(err)
			}
			return Value{Data: data, Present: true}, nil
		},
		Write: func(c Cell, v Value) error {
			file := real(c)
			if !v.Present {
				if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
					return why(err)
				}
				return syncFolder(filepath.Dir(file))
			}
			return replace(file, v.Data)
		},
		Sweep: func(c Cell) error {
			if err := os.Remove(unfinished(real(c))); err != nil && !errors.Is(err, os.ErrNotExist) {
				return why(err)
			}
			return nil
		},
	}
}

// unfinished is the name of a file until it is whole.
func unfinished(file string) string {
	return filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".venturi")
}

// replace puts a file in the place of another one in one step, and on disk.
func replace(file string, data []byte) (err error) {
	mode, uid, gid := os.FileMode(0o644), -1, -1
	if info, err := os.Stat(file); err == nil {
		var st unix.Stat_t
		if err := unix.Stat(file, &st); err != nil {
			return fmt.Errorf("stat: %w", err)
		}
		mode, uid, gid = info.Mode(), int(st.Uid), int(st.Gid)
	}
	f, err := os.OpenFile(unfinished(file), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return why(err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil && uid >= 0 {
		err = f.Chown(uid, gid)
	}
	if err == nil {
		err = f.Chmod(mode) // after the owner, who takes setuid away
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return why(err)
	}
	if err := os.Rename(f.Name(), file); err != nil {
		return fmt.Errorf("rename: %w", err)
	}
	return syncFolder(filepath.Dir(file))
}

// syncFolder makes names that were given or taken in a folder durable.
func syncFolder(folder string) error {
	f, err := os.Open(folder)
	if err != nil {
		return why(err)
	}
	return errors.Join(f.Sync(), f.Close())
}
