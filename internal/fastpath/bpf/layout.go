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
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// layoutFile is a dangling symbolic link. Its target is a hash of the layout of the tables
// that are pinned beside it. It is written last, and removed first.
const layoutFile = "layout"

// MaxPods and MaxPeers are how many entries there are in the tables of pods, by the numbers of their devices, and of
// peers: MAX_PODS and MAX_PEERS of src/state.h.
const (
	MaxPods  = 65536
	MaxPeers = 4096
)

// readTables are those that commands read, and that are not adopted.
var readTables = []string{"flows", "pods", "peers"}

// layout is a hash of what the tables hold that a daemon adopts or a command reads. Tables of the same
// size may differ in it.
func layout(spec *ebpf.CollectionSpec) string {
	var b strings.Builder
	for _, name := range readTables {
		t := spec.Maps[name]
		b.WriteString(fmt.Sprintln(name, t.KeySize, t.ValueSize))
		for _, part := range []btf.Type{t.Key, t.Value} {
			if fields, ok := btf.As[*btf.Struct](part); ok {
				for _, m := range fields.Members {
					b.WriteString(fmt.Sprintln(m.Name, m.Offset))
				}
			}
		}
	}
	for _, name := range adopted {
		t := spec.Maps[name]
		b.WriteString(fmt.Sprintln(name, t.Type, t.KeySize, t.ValueSize, t.MaxEntries, t.Flags))
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Variables)) {
		if v := spec.Variables[name]; v.SectionName == dataTable {
			b.WriteString(fmt.Sprintln(name, v.Offset, v.Size()))
		}
	}
	b.WriteString(fmt.Sprintln(countNames))
	return fmt.Sprintf("%x", sha256.Sum256([]byte(b.String())))[:16]
}

// tableLayout is how a kind of fast path lays out its tables, as far as commands have to know it.
type tableLayout struct {
	hash    string
	offsets map[string]uint32 // of variables, in their table
}

// offset is where a variable is in the table of those that the daemon and its programs share.
func (l tableLayout) offset(name string) (int, error) {
	at, ok := l.offsets[name]
	if !ok {
		return 0, fmt.Errorf("the programs share no variable %q", name)
	}
	return int(at), nil
}

// objectOf names the object with the programs of a kind, or of its shadow.
type objectOf struct {
	kind   string
	shadow bool
}

// layouts are those that were asked for, each a func() (tableLayout, error) by its [objectOf]. They stay the same, and
// to parse an object takes longer than to read the tables.
var layouts sync.Map

// layoutOf is how a kind of fast path, or its shadow, lays out its tables.
func layoutOf(kind string, shadow bool) (tableLayout, error) {
	parse, _ := layouts.LoadOrStore(objectOf{kind, shadow}, sync.OnceValues(func() (tableLayout, error) {
		spec, err := source(kind, shadow)
		if err != nil {
			return tableLayout{}, err
		}
		is := tableLayout{layout(spec), map[string]uint32{}}
		for name, v := range spec.Variables {
			if v.SectionName == dataTable {
				is.offsets[name] = v.Offset
			}
		}
		return is, nil
	}))
	return parse.(func() (tableLayout, error))()
}

// CheckLayout expects that the tables in the folder of pins are laid out as this version lays out those of a
// kind, or those of its shadow. Before a daemon has made them, the error wraps os.ErrNotExist.
func CheckLayout(pins, kind string) error {
	said, err := os.Readlink(filepath.Join(pins, layoutFile))
	if err != nil {
		return err
	}
	for _, shadow := range []bool{false, true} {
		is, err := layoutOf(kind, shadow)
		if err != nil {
			return err
		}
		if said == is.hash {
			return nil
		}
	}
	return ErrOtherVersion
}

// ErrOtherVersion is that the tables of a fast path are those of another version.
var ErrOtherVersion = errors.New("its tables are those of another version")
