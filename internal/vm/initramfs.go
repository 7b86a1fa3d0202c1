package vm

import (
	"bufio"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cavaliergopher/cpio"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/kernel"
)

// initramfs writes the guest's initramfs to an anonymous file in memory. It is not compressed,
// because an emulated CPU expands it more slowly than it reads it.
func initramfs(program string, c guest.Config, modules []kernel.Module) (*os.File, error) {
	fd, err := unix.MemfdCreate("venturi-initramfs", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "initramfs")
	w := bufio.NewWriterSize(f, 1<<20)
	if err = writeInitramfs(w, program, c, modules); err == nil {
		err = w.Flush()
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("make the first file system: %w", err)
	}
	return f, nil
}

// archive writes files, each after the folders that it is in.
type archive struct {
	*cpio.Writer
	folders map[string]bool
}

func writeInitramfs(to io.Writer, program string, c guest.Config, modules []kernel.Module) error {
	a := archive{cpio.NewWriter(to), map[string]bool{"/": true}}
	if err := a.copy("/init", program); err != nil {
		return err
	}
	libraries, err := librariesOf(program)
	if err != nil {
		return err
	}
	for _, file := range libraries {
		if err := a.copy(file, file); err != nil {
			return err
		}
	}
	for _, m := range modules {
		content, err := m.Open()
		if err != nil {
			return fmt.Errorf("read module %s: %w", m.Name, err)
		}
		name := m.Name + ".ko"
		if err := a.add(path.Join(guest.ModuleFolder, name), content); err != nil {
			return err
		}
		c.Modules = append(c.Modules, guest.Module{File: name, Optional: m.Optional})
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := a.add(guest.ConfigFile, text); err != nil {
		return err
	}
	return a.Close()
}

func (a archive) add(name string, content []byte) error {
	if err := a.header(name, int64(len(content))); err != nil {
		return err
	}
	_, err := a.Write(content)
	return err
}

func (a archive) copy(name, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := a.header(name, info.Size()); err != nil {
		return err
	}
	_, err = io.CopyN(a, f, info.Size())
	return err
}

func (a archive) header(name string, size int64) error {
	for _, folder := range parentDirs(name) {
		if a.folders[folder] {
			continue
		}
		a.folders[folder] = true
		h := &cpio.Header{Name: strings.TrimPrefix(folder, "/"), Mode: cpio.TypeDir | 0o755, Links: 2}
		if err := a.WriteHeader(h); err != nil {
			return err
		}
	}
	return a.WriteHeader(&cpio.Header{Name: strings.TrimPrefix(name, "/"), Mode: cpio.TypeReg | 0o755, Size: size})
}

// parentDirs lists the parent folders of a file, the outermost first.
func parentDirs(name string) []string {
	folder := path.Dir(name)
	if folder == "/" {
		return nil
	}
	return append(parentDirs(folder), folder)
}

// libraryFolders are the loader's default library folders.
var libraryFolders = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// librariesOf returns the loader and the libraries of a program: none for a static build such as
// ours, the C library's for one by `go install` or `go test`.
func librariesOf(program string) ([]string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	defer f.Close()
	var files []string
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text, err := io.ReadAll(p.Open())
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		files = append(files, strings.TrimRight(string(text), "\x00"))
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	for _, name := range names {
		file, err := findLibrary(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

func findLibrary(name string) (string, error) {
	for _, folder := range libraryFolders {
		file := filepath.Join(folder, name)
		if _, err := os.Stat(file); err == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("find library %s: not found in %s", name, strings.Join(libraryFolders, ", "))
}
