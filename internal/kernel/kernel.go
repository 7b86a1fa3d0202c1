// Package kernel keeps Linux kernels to run under: Debian's packages, fetched
// by the machine's own package manager and unpacked into a store of ours, never
// installed; or any bzImage with its modules. It knows where a kernel is and
// which files a module takes. Starting one is package vm's.
package kernel

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is one kernel to run under.
type Kernel struct {
	Release string // as uname -r says it: "6.1.0-56-amd64"
	Image   string // file that boots: a bzImage, or the ELF file out of one
	Modules string // folder .../lib/modules/RELEASE; empty: none was found
	Source  string // where it comes from: "linux-image-6.1.0-56-amd64 6.1.192-2", or "a file"
}

// Series is the part of the release by which people call a kernel: "6.1".
func (k Kernel) Series() string { return seriesOf(k.Release) }

// seriesOf gives the first two numbers of a release; empty: it has no such.
func seriesOf(release string) string {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, digits))]
	if major == "" || minor == "" || strings.Trim(major, digits) != "" {
		return ""
	}
	return major + "." + minor
}

const digits = "0123456789"

// Find gives the kernel that a user means: by its series ("6.1": the newest one
// kept), by its full release, or by the file of a bzImage, whose modules are
// looked for beside it. A file in the working folder whose name could be that of
// a kernel is meant only with a slash: "./6.1". The error is one for users.
func Find(spec string) (Kernel, error) {
	if strings.Contains(spec, "/") || seriesOf(spec) == "" && isFile(spec) {
		return open(spec)
	}
	kept, err := List()
	if err != nil {
		return Kernel{}, err
	}
	for _, k := range kept {
		if k.Release == spec || k.Series() == spec {
			return k, nil
		}
	}
	return Kernel{}, notKept(spec, kept)
}

// List gives the kernels that are kept, the newest first.
func List() ([]Kernel, error) {
	var all []Kernel
	for _, store := range stores() {
		kept, err := store.list()
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			// The user's own comes before the machine's.
			if !slices.ContainsFunc(all, func(known Kernel) bool { return known.Release == k.Release }) {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b Kernel) int { return compareReleases(b.Release, a.Release) })
	return all, nil
}

// compareReleases orders releases as people read them: numbers as numbers.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		na, nb := leading(a, true), leading(b, true)
		// No leading zeros stand in releases: the longer number is the greater.
		if c := cmp.Or(cmp.Compare(len(na), len(nb)), cmp.Compare(na, nb)); c != 0 {
			return c
		}
		a, b = a[len(na):], b[len(nb):]
		wa, wb := leading(a, false), leading(b, false)
		if c := cmp.Compare(wa, wb); c != 0 {
			return c
		}
		a, b = a[len(wa):], b[len(wb):]
	}
	return cmp.Compare(len(a), len(b))
}

// leading gives the digits that a text begins with, or all before the first.
func leading(text string, number bool) string {
	for i := range len(text) {
		if strings.Contains(digits, text[i:i+1]) != number {
			return text[:i]
		}
	}
	return text
}

// ModuleDirs lists the folders that may hold the modules of a kernel given as a file.
func (k Kernel) ModuleDirs() []string {
	folder, release := filepath.Dir(k.Image), k.Release
	return []string{
		filepath.Join(folder, "..", "lib", "modules", release), // a package: boot/vmlinuz-RELEASE
		filepath.Join(folder, "lib", "modules", release),       // what "make modules_install INSTALL_MOD_PATH=." leaves
		filepath.Join("/lib/modules", release),                 // the machine's own kernel
	}
}
