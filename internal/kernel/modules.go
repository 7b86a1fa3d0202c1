package kernel

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
)

// Module is a file to load into a kernel.
type Module struct {
	Name string // as the kernel lists it: "vhost_net"
	// Optional: the kernel may refuse it. Of several modules with the same purpose, such as a
	// checksum in plain code and one with CPU instructions, one is enough.
	Optional bool
	Open     func() ([]byte, error) // reads and decompresses it
}

// Load returns the files of modules and of their dependencies, in load order, without those that
// are built into the kernel. If a kernel has no folder of modules, it assumes that all are built
// in. It fails if the kernel has no such module.
func (k Kernel) Load(modules ...string) ([]Module, error) {
	if k.Modules == "" {
		return nil, nil
	}
	t, err := readTables(k.Modules)
	if err != nil {
		return nil, fmt.Errorf("read modules of %s: %w", k.Release, err)
	}
	l := loading{tables: t, folder: k.Modules, done: map[string]bool{}}
	for _, m := range modules {
		name := moduleName(m)
		if _, ok := t.files[name]; !ok && !t.builtin[name] {
			return nil, fmt.Errorf("kernel %s has no module %s, neither in %s nor built in", k.Release, m, k.Modules)
		}
		l.add(name, false)
	}
	return l.order, nil
}

// tables are depmod's tables of a folder of modules. Keys are module names.
type tables struct {
	files   map[string]string   // name -> file, relative to the folder
	needs   map[string][]string // name -> names of hard dependencies
	wants   map[string][]string // name -> names or aliases of soft dependencies
	aliases map[string][]string // alias without a pattern -> names
	builtin map[string]bool
}

func readTables(folder string) (*tables, error) {
	t := &tables{map[string]string{}, map[string][]string{}, map[string][]string{}, map[string][]string{}, map[string]bool{}}
	for _, table := range []struct {
		file string
		must bool
		line func(words []string)
	}{
		{"modules.dep", true, t.dependency},
		{"modules.builtin", false, func(w []string) { t.builtin[moduleName(w[0])] = true }},
		{"modules.softdep", false, t.soft},
		{"modules.alias", false, t.alias},
	} {
		text, err := os.ReadFile(filepath.Join(folder, table.file))
		if errors.Is(err, os.ErrNotExist) && !table.must {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%w (the program depmod writes it)", err)
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, len(text)+1) // the dependencies of one module may fill a long line
		for lines.Scan() {
			if words := strings.Fields(lines.Text()); len(words) > 0 {
				table.line(words)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", table.file, err)
		}
	}
	return t, nil
}

// dependency parses a line of modules.dep: "kernel/net/a.ko.xz: kernel/lib/b.ko.xz".
func (t *tables) dependency(words []string) {
	file := strings.TrimSuffix(words[0], ":")
	name := moduleName(file)
	t.files[name] = file
	for _, needed := range words[1:] {
		t.needs[name] = append(t.needs[name], moduleName(needed))
	}
}

// soft parses a line of modules.softdep: "softdep libcrc32c pre: crc32c post: x".
func (t *tables) soft(words []string) {
	before := false
	for i, w := range words {
		switch {
		case i < 2 || words[0] != "softdep":
		case strings.HasSuffix(w, ":"):
			before = w == "pre:"
		case before:
			name := moduleName(words[1])
			t.wants[name] = append(t.wants[name], w)
		}
	}
}

// alias parses a line of modules.alias: "alias crc32c crc32c_intel".
func (t *tables) alias(words []string) {
	if len(words) == 3 && words[0] == "alias" && !strings.ContainsAny(words[1], "*?[") {
		called := moduleName(words[1])
		t.aliases[called] = append(t.aliases[called], moduleName(words[2]))
	}
}

// moduleName returns the kernel's name of the module in a file.
func moduleName(file string) string {
	name, _, _ := strings.Cut(filepath.Base(file), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// loading collects modules in load order, each once and after its dependencies.
type loading struct {
	*tables
	folder string
	done   map[string]bool
	order  []Module
}

func (l *loading) add(name string, optional bool) {
	file, ok := l.files[name]
	if !ok {
		return // built in
	}
	if l.done[name] {
		for i, m := range l.order {
			l.order[i].Optional = m.Optional && (optional || m.Name != name)
		}
		return
	}
	l.done[name] = true
	for _, wanted := range l.wants[name] {
		wanted = moduleName(wanted)
		for _, m := range append(slices.Clone(l.aliases[wanted]), wanted) {
			l.add(m, true)
		}
	}
	for _, needed := range l.needs[name] {
		l.add(needed, optional)
	}
	path := filepath.Join(l.folder, file)
	l.order = append(l.order, Module{name, optional, func() ([]byte, error) { return readModule(path) }})
}

// readModule reads and decompresses a module's file.
func readModule(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	defer f.Close()
	r, err := decompress(filepath.Ext(file), f)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read module %s: %w", file, err)
	}
	return data, nil
}

// decompress returns a reader for the compression in the file's extension.
func decompress(ext string, r io.Reader) (io.Reader, error) {
	switch ext {
	case ".xz":
		return xz.NewReader(bufio.NewReader(r), 0)
	case ".zst":
		d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case ".gz":
		return gzip.NewReader(r)
	}
	return r, nil
}
