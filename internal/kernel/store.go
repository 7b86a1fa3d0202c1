package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

const (
	// StoreVariable is the environment variable that replaces the default store.
	StoreVariable = "VENTURI_KERNELS"
	machineStore  = store("/var/lib/venturi/kernels")
)

// store is a folder with a kernel in each folder below it, called by its release:
//
//	RELEASE/boot/vmlinuz-RELEASE
//	RELEASE/boot/vmlinux-RELEASE   the same decompressed, where it can be started so
//	RELEASE/lib/modules/RELEASE/...
//	RELEASE/source          one line: the package and its version
//
// A folder gets its name when it is whole; what begins with a dot is not a kernel.
type store string

const sourceFile = "source"

// stores are the folders to search for kernels. New ones go to the first.
func stores() []store {
	if named := os.Getenv(StoreVariable); named != "" {
		return []store{store(named)}
	}
	if os.Geteuid() == 0 {
		return []store{machineStore}
	}
	return []store{userStore(), machineStore}
}

func userStore() store {
	data := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(os.Getenv("HOME"), ".local", "share")
	}
	return store(filepath.Join(data, "venturi", "kernels"))
}

// list returns the kernels in a store; none if the folder does not exist.
func (s store) list() ([]Kernel, error) {
	entries, err := os.ReadDir(string(s))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, verr.Wrap(verr.Permission, "cannot read the kernels that are kept", err,
			"run as who may read that folder, or name another one in "+StoreVariable)
	}
	var kept []Kernel
	for _, e := range entries {
		if k, ok := s.kernel(e.Name()); ok {
			kept = append(kept, k)
		}
	}
	return kept, nil
}

// kernel returns the kernel in a folder of the store.
func (s store) kernel(release string) (Kernel, bool) {
	if strings.HasPrefix(release, ".") || seriesOf(release) == "" {
		return Kernel{}, false
	}
	folder := filepath.Join(string(s), release)
	k := Kernel{Release: release, Image: filepath.Join(folder, "boot", "vmlinuz-"+release)}
	if !isFile(k.Image) {
		return Kernel{}, false
	}
	if plain := plainFile(folder, release); isFile(plain) {
		k.Image = plain
	}
	modules := filepath.Join(folder, "lib", "modules", release)
	if _, err := os.Stat(modules); err == nil {
		k.Modules = modules
	}
	source, _ := os.ReadFile(filepath.Join(folder, sourceFile)) // a kernel that was put there by hand has none
	k.Source = strings.TrimSpace(string(source))
	return k, true
}

func isFile(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// notKept is the error for a kernel that is not in the store.
func notKept(spec string, kept []Kernel) error {
	what := "cannot use kernel " + spec
	if seriesOf(spec) == "" {
		return verr.New(verr.Usage, what, "that is neither a version nor the file of a kernel",
			"name a version, such as 6.1, or a file, such as ./bzImage")
	}
	do := fmt.Sprintf("fetch it with: venturi kernel fetch %s", spec)
	_, known := suites[seriesOf(spec)]
	if !known || spec != seriesOf(spec) {
		do = fmt.Sprintf("name one that is kept or can be fetched (%s), or the file of a bzImage", strings.Join(choices(kept), ", "))
	}
	code, why := verr.Missing, "it is not kept on this machine"
	if !known {
		code, why = verr.Usage, "it is not kept on this machine, and not one of the series that can be fetched"
	}
	return verr.New(code, what, why, do)
}

// choices lists alternatives for a kernel that is not there.
func choices(kept []Kernel) []string {
	all := FetchableSeries()
	for _, k := range kept {
		if s := k.Series(); !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// StoredSize returns the size of a stored kernel in bytes, and when it was stored.
func (k Kernel) StoredSize() (bytes int64, since time.Time, err error) {
	folder := filepath.Dir(filepath.Dir(k.Image))
	err = filepath.WalkDir(folder, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	})
	if err != nil {
		return 0, since, fmt.Errorf("stat kernel %s: %w", k.Release, err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		return 0, since, fmt.Errorf("stat kernel %s: %w", k.Release, err)
	}
	return bytes, info.ModTime(), nil
}
