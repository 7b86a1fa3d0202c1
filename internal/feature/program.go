package feature

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/venturi-net/venturi/internal/host"
)

// Program is a program that has to be installed.
type Program struct {
	Name        string // of its file
	Package     string // of Debian that brings it
	Alternative string // file that it is on other systems, if that is not on PATH; empty: none
}

// sbin are folders where daemons are, and which the PATH of a user often lacks.
var sbin = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}

// Find gives the program's file: the first on PATH, or in a folder of daemons.
func (p Program) Find() (string, error) {
	var files []string
	for _, folder := range append(filepath.SplitList(os.Getenv("PATH")), sbin...) {
		files = append(files, filepath.Join(folder, p.Name))
	}
	for _, file := range append(files, p.Alternative) {
		if !filepath.IsAbs(file) {
			continue // whoever can write to where we happen to be would be run as root
		}
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("find program %s: %w", p.Name, errNotInstalled)
}

var errNotInstalled = errors.New("it is not on PATH nor in a folder of daemons")

// Ask is of [Need].
func (p Program) Ask() (Answer, error) {
	if _, err := p.Find(); err != nil {
		return No, errNotInstalled
	}
	return Yes, nil
}

// String is of [Need].
func (p Program) String() string { return fmt.Sprintf("%s (package %s)", p.Name, p.Package) }

// Lack is of [Need].
func (p Program) Lack() (lacks, get string) {
	return "there is no program " + p.Name, install(host.Reader{}.DebianLike(), p.Name, p.Package)
}

// File is a file that has to be installed.
type File struct {
	Path    string
	Package string // of Debian that brings it
}

// Ask is of [Need].
func (f File) Ask() (Answer, error) {
	if _, err := os.Stat(f.Path); err != nil {
		return classify(err), fmt.Errorf("find file: %w", err)
	}
	return Yes, nil
}

// String is of [Need].
func (f File) String() string { return fmt.Sprintf("%s (package %s)", f.Path, f.Package) }

// Lack is of [Need].
func (f File) Lack() (lacks, get string) {
	return "there is no file " + f.Path, install(host.Reader{}.DebianLike(), f.Path, f.Package)
}

// install says how to get what a package of Debian brings. Other systems have it in packages of other names.
func install(debian bool, what, pkg string) string {
	if debian {
		return fmt.Sprintf("install the package %s (apt-get install %[1]s)", pkg)
	}
	return fmt.Sprintf("install %s (on Debian: apt-get install %s)", what, pkg)
}
