package setting

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FileMode is the mode and the owner of a file.
type FileMode struct {
	Mode string `json:"mode"` // in octal digits
	UID  int    `json:"uid"`
	GID  int    `json:"gid"`
}

// newFileMode is what a file gets that never was.
func newFileMode() FileMode { return FileMode{"0644", os.Geteuid(), os.Getegid()} }

// fileMode reads that of a file; nil: it is that of a new one.
func fileMode(f *os.File) (*FileMode, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	m := FileMode{fmt.Sprintf("%04o", st.Mode&0o7777), int(st.Uid), int(st.Gid)}
	if m == newFileMode() {
		return nil, nil
	}
	return &m, nil
}

// apply gives it to a file; nil: that of a new one.
func (m *FileMode) apply(f *os.File) error {
	if m == nil {
		return f.Chmod(0o644)
	}
	mode, err := strconv.ParseUint(m.Mode, 8, 12)
	if err != nil {
		return fmt.Errorf("read mode of file: %w", err)
	}
	if err := f.Chown(m.UID, m.GID); err != nil { // takes away some of the mode
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), uint32(mode)); err != nil {
		return fmt.Errorf("chmod: %w", err)
	}
	return nil
}

// accessList is the attribute that a folder's default may have given a new file.
const accessList = "system.posix_acl_access"

// copyAttributes gives a file the extended attributes of another one: access
// lists, labels, and those of users.
func copyAttributes(to, from *os.File) error {
	want, err := attributes(from)
	if err != nil {
		return err
	}
	has, err := attributes(to)
	if err != nil {
		return err
	}
	for name, value := range want {
		if now, there := has[name]; there && now == value {
			continue
		}
		if err := unix.Fsetxattr(int(to.Fd()), name, []byte(value), 0); err != nil {
			return fmt.Errorf("keep its attribute %s, which the new file would lack: %w", name, err)
		}
	}
	if _, wanted := want[accessList]; has[accessList] != "" && !wanted {
		if err := unix.Fremovexattr(int(to.Fd()), accessList); err != nil {
			return fmt.Errorf("take the access list of its folder away from it: %w", err)
		}
	}
	return nil
}

// attributes reads the extended attributes of a file, but those by which the
// kernel itself vouches for what is in it.
func attributes(f *os.File) (map[string]string, error) {
	names, err := readSized(func(b []byte) (int, error) { return unix.Flistxattr(int(f.Fd()), b) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list its attributes: %w", err)
	}
	all := map[string]string{}
	for name := range strings.SplitSeq(strings.TrimSuffix(names, "\x00"), "\x00") {
		if name == "" || name == "security.ima" || name == "security.evm" {
			continue
		}
		all[name], err = readSized(func(b []byte) (int, error) { return unix.Fgetxattr(int(f.Fd()), name, b) })
		if err != nil {
			return nil, fmt.Errorf("read its attribute %s: %w", name, err)
		}
	}
	return all, nil
}

// readSized reads into as much room as the kernel asks for.
func readSized(read func([]byte) (int, error)) (string, error) {
	n, err := read(nil)
	if err != nil || n == 0 {
		return "", err
	}
	b := make([]byte, n)
	n, err = read(b)
	return string(b[:max(n, 0)]), err
}
