package node

import (
	"context"
	"errors"
	"io/fs"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
)

// What a killed daemon has left is removed by whoever enables or disables the fast path of its namespace. Of one
// that is gone nobody does: its folder, its mount and all that is pinned there would stay until the machine is started
// anew, and be taken for that of the next namespace that gets its number. So whoever comes by removes it.

// seesAll tells whether all namespaces can be seen from here: what a container does not see is not gone.
var seesAll = func() bool { return host.Reader{}.Sight().Whole }

// removeOrphans removes the folders, of those in root, whose namespaces are gone. One that cannot be removed concerns
// nobody here, and whoever comes next tries again.
func removeOrphans(root string) {
	folders, _ := sanitize.Files(root, "[0-9]*") // the pattern is sound
	for _, folder := range folders {
		_ = filesIn(folder).removeOrphan()
	}
}

// removeOrphan removes the folder if its namespace is gone. Nothing is detached: the devices are gone, too.
func (f files) removeOrphan() error {
	if is, err := f.isOrphan(); !is || err != nil {
		return err
	}
	lock, err := kernel.LockFolder(context.Background(), f.folder) // a daemon that lives has it
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	// Meanwhile another process may have removed it, and a new namespace with its number may have one.
	if is, err := f.isOrphan(); !is || err != nil {
		return err
	}
	return kernel.DiscardPins(f.folder)
}

// isOrphan tells whether the folder's namespace is known to be gone. Its number, by which the folder is named, is given
// to others then, and its cookie is not.
func (f files) isOrphan() (bool, error) {
	of := new(setting.NetnsID)
	err := host.ReadJSON(f.namespace, of)
	if errors.Is(err, fs.ErrNotExist) { // an earlier version has made it, or somebody is about to
		return false, nil
	}
	if err != nil {
		return false, err
	}
	here, err := setting.ThreadNetns()
	if err != nil {
		return false, err
	}
	if of.Inode == here.Inode { // two do not have one number at a time
		return of.Cookie != here.Cookie, nil
	}
	if !seesAll() {
		return false, nil
	}
	return of.IsGone()
}
