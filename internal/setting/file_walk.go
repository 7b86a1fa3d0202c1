package setting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxLinks is how many symbolic links are followed to one file, as in the kernel.
const maxLinks = 40

// errLinkOut: a link of some user leads out of what that user owns.
var errLinkOut = errors.New("a symbolic link leads to it, made by a user who does not own it: name the file itself")

// anyOwner stands for a file that may belong to anybody.
const anyOwner = -1

// folderEntry is a name in a folder that is held open, so that nobody can put
// another folder, or a link, in its way.
type folderEntry struct {
	*os.File
	name  string
	owner int  // uid that must own it, if it is there; or anyone
	link  bool // a link led to the name itself
}

func (in folderEntry) fd() int { return int(in.Fd()) }

// walk is a way through folders, each opened in the one before.
type walk struct {
	folderEntry
	rest  []string // what is still to be walked
	links int
}

// walkTo goes to the folder of a file, and follows links by itself: those of root
// and of this user anywhere, those of another user only to what that user owns.
// Nobody else can lead a write, or what is read, elsewhere by a link that is
// put there, whenever that is. The folder can only be looked up in: see [folderEntry.open].
func walkTo(file string) (folderEntry, error) {
	w := walk{folderEntry: folderEntry{owner: anyOwner}, rest: parts(file)}
	err := w.start()
	for err == nil && len(w.rest) > 0 {
		err = w.step()
	}
	if err == nil && w.name == "" {
		err = errors.New("it is no ordinary file")
	}
	if err == nil && w.owner != anyOwner {
		var st unix.Stat_t
		if err = unix.Fstat(w.fd(), &st); err == nil && int(st.Uid) != w.owner {
			err = errLinkOut
		}
	}
	if err != nil {
		w.Close()
		return folderEntry{}, err
	}
	return w.folderEntry, nil
}

// parts are the names in a path.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(p string) bool { return p == "" || p == "." })
}

// start begins at the root.
func (w *walk) start() error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.enter(fd, "/")
	return nil
}

// enter goes to a folder.
func (w *walk) enter(fd int, path string) {
	if w.File != nil {
		w.Close()
	}
	w.File = os.NewFile(uintptr(fd), path)
}

// step goes on by one name: to the folder that has it, to where a link leads, or
// nowhere, if it is the last.
func (w *walk) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	fd, err := unix.Openat(w.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) && len(w.rest) == 0 {
		w.name = name
		return nil
	}
	if err != nil {
		return err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		err = w.follow(fd, int(st.Uid))
	case len(w.rest) == 0:
		w.name = name
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	default:
		w.enter(fd, filepath.Join(w.Name(), name))
		return nil
	}
	unix.Close(fd)
	return err
}

// follow puts where a link leads in front of what is still to be walked.
func (w *walk) follow(link, owner int) error {
	if w.links++; w.links > maxLinks {
		return unix.ELOOP
	}
	if owner != 0 && owner != os.Geteuid() {
		if w.owner != anyOwner && w.owner != owner {
			return errLinkOut
		}
		w.owner = owner
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", target)
	if err != nil {
		return fmt.Errorf("read link: %w", err)
	}
	w.link = w.link || len(w.rest) == 0
	w.rest = append(parts(string(target[:n])), w.rest...)
	if n > 0 && target[0] == '/' {
		return w.start()
	}
	return nil
}

// open opens the file of that name for reading, if it belongs to whom it must.
func (in folderEntry) open() (*os.File, *unix.Stat_t, error) {
	fd, err := unix.Openat(in.fd(), in.name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f, st := os.NewFile(uintptr(fd), filepath.Join(in.Name(), in.name)), &unix.Stat_t{}
	err = unix.Fstat(fd, st)
	if err == nil && in.owner != anyOwner && int(st.Uid) != in.owner {
		err = errLinkOut
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, st, nil
}

// openFolder opens the folder of a file for writing in it.
func openFolder(file string) (folderEntry, error) {
	in, err := walkTo(file)
	if err != nil {
		return in, err
	}
	defer in.Close()
	fd, err := unix.Openat(in.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return folderEntry{}, err
	}
	in.File = os.NewFile(uintptr(fd), in.Name())
	return in, nil
}

// openFile opens a file for reading.
func openFile(file string) (*os.File, error) {
	in, err := walkTo(file)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	f, _, err := in.open()
	return f, err
}
