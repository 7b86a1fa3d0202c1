package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// A new daemon adopts two tables of the earlier one: the counters, and the globals with the
// epochs, by which it invalidates what programs know that are still attached. Everything
// else is learned anew, in new tables, because nobody followed the network in between.
const (
	countsTable = "counts"
	dataTable   = ".data"
)

var adopted = []string{countsTable, dataTable}

// mmapable is BPF_F_MMAPABLE. The library sets it when it loads a program's globals; the
// object file does not.
const mmapable = 1 << 10

// adopt opens the tables of an earlier daemon. If their layout differs, or one is missing,
// everything in the folder is removed, and its programs are detached: nobody could
// invalidate what they know.
func adopt(spec *ebpf.CollectionSpec, o Options) (map[string]*ebpf.Map, error) {
	kept, pins := map[string]*ebpf.Map{}, o.Pins
	if pins == "" {
		return kept, nil
	}
	said, err := os.Readlink(filepath.Join(pins, layoutFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	fits := said == layout(spec)
	for _, name := range adopted {
		if !fits {
			break
		}
		m, err := ebpf.LoadPinnedMap(TableFile(pins, name), nil)
		switch {
		case err == nil && spec.Maps[name].Compatible(m) == nil:
			kept[name] = m
			continue
		case err == nil:
			m.Close()
		case !errors.Is(err, os.ErrNotExist):
			err = fmt.Errorf("take over table %s: %w", name, err)
			closeAll(kept)
			return nil, err
		}
		fits = false
	}
	if fits {
		return kept, nil
	}
	closeAll(kept)
	return map[string]*ebpf.Map{}, Remove(pins, o.Detach)
}

// pinTables pins the tables, in place of the old ones.
func pinTables(tables, kept map[string]*ebpf.Map, spec *ebpf.CollectionSpec, pins string) error {
	if pins == "" {
		return nil
	}
	for name, m := range tables {
		if kept[name] != nil || !isPinned(name, m) {
			continue
		}
		file := TableFile(pins, name)
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := m.Pin(file); err != nil {
			return fmt.Errorf("pin table %s: %w", name, err)
		}
	}
	if len(kept) > 0 {
		return nil
	}
	return os.Symlink(layout(spec), filepath.Join(pins, layoutFile))
}

// isPinned tells whether a map is pinned. Constants are not, nor is a ring.
func isPinned(name string, m *ebpf.Map) bool {
	return m.Type() != ebpf.RingBuf && name != ".rodata" && name != ".bss"
}

// Attached lists the pins in a folder that are not tables: those of attached programs. Files
// with a dot in their name are the kernel's.
func Attached(pins string) (files []string, err error) {
	entries, err := os.ReadDir(pins)
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), tablePrefix) && !strings.Contains(e.Name(), ".") {
			files = append(files, filepath.Join(pins, e.Name()))
		}
	}
	return files, err
}

// Remove detaches the programs that are pinned in a folder, and then removes the layout file
// and the tables.
func Remove(pins string, detach func(file string) error) error {
	files, err := Attached(pins)
	if err != nil {
		return err
	}
	var failed []error
	for _, f := range files {
		failed = append(failed, detach(f))
	}
	tables, _ := sanitize.Files(pins, tablePrefix+"*") // the pattern is sound
	for _, f := range append([]string{filepath.Join(pins, layoutFile)}, tables...) {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func closeAll(tables map[string]*ebpf.Map) {
	for _, m := range tables {
		m.Close()
	}
}
