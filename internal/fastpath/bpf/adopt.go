package bpf

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// A fast path takes over from the one before what has been counted, and the numbers
// by which programs that are attached still learn that nothing of what they know
// holds any more. All else is learned again, in tables of its own: what happened
// while nobody was there to see it is known to none.
const (
	countsTable = "counts"
	dataTable   = ".data"
)

var adopted = []string{countsTable, dataTable}

// layoutFile is a link that leads nowhere: its target says what the tables are like
// that are pinned beside it. It is written last, and taken away first.
const layoutFile = "layout"

// mmapable is BPF_F_MMAPABLE, which the globals of a program are loaded with: that
// the object's file does not say so makes them no other table.
const mmapable = 1 << 10

// layout tells apart tables that look alike from outside and are read differently.
func layout(spec *ebpf.CollectionSpec) string {
	var b strings.Builder
	for _, name := range adopted {
		t := spec.Maps[name]
		fmt.Fprintln(&b, name, t.Type, t.KeySize, t.ValueSize, t.MaxEntries, t.Flags)
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Variables)) {
		if v := spec.Variables[name]; v.SectionName == dataTable {
			fmt.Fprintln(&b, name, v.Offset, v.Size())
		}
	}
	fmt.Fprintln(&b, countNames)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:16]
}

// adopt opens what there is to take over. Where it is of another layout, or not
// whole, everything in the folder is taken away, the programs that are attached
// with it: they would be told nothing any more.
func adopt(spec *ebpf.CollectionSpec, o Options) (map[string]*ebpf.Map, error) {
	kept, pins := map[string]*ebpf.Map{}, o.Pins
	if pins == "" {
		return kept, nil
	}
	said, err := os.Readlink(filepath.Join(pins, layoutFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	spec.Maps[dataTable].Flags |= mmapable
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

// keep pins the tables, in place of those that are not used any more.
func keep(tables, kept map[string]*ebpf.Map, spec *ebpf.CollectionSpec, pins string) error {
	if pins == "" {
		return nil
	}
	for name, m := range tables {
		if kept[name] != nil || !pinnable(name, m) {
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

// pinnable: what a program is made with is no table, and a ring is for who reads it.
func pinnable(name string, m *ebpf.Map) bool {
	return m.Type() != ebpf.RingBuf && name != ".rodata" && name != ".bss"
}

// Attached lists the files in a folder of pins that are no tables: what is attached
// by somebody. Those with a dot in their name are the kernel's own.
func Attached(pins string) (files []string, err error) {
	entries, err := os.ReadDir(pins)
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), tablePrefix) && !strings.Contains(e.Name(), ".") {
			files = append(files, filepath.Join(pins, e.Name()))
		}
	}
	return files, err
}

// Remove takes away all that is pinned in a folder, and detaches what is attached by
// that: first what is attached, and before the tables what tells their layout.
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
