// Package kernel manages Linux kernels to run under: Debian's packages, fetched by the host's own
// package manager and unpacked into a store of ours, never installed; or any bzImage with its
// modules. It knows where a kernel is and which files a module needs. Package vm starts them.
package kernel

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// Kernel is one kernel to run under.
type Kernel struct {
	Release string // as in uname -r: "6.1.0-56-amd64"
	Image   string // file to boot: a bzImage, or the ELF file extracted from one
	Modules string // folder .../lib/modules/RELEASE; empty: not found
	Source  string // origin: "linux-image-6.1.0-56-amd64 6.1.192-2", or "a file"
}

// Series is the first two numbers of the release: "6.1".
func (k Kernel) Series() string { return seriesOf(k.Release) }

// seriesOf returns the first two numbers of a release, or "" if it has none.
func seriesOf(release string) string {
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, digits))]
	if major == "" || minor == "" || strings.Trim(major, digits) != "" {
		return ""
	}
	return major + "." + minor
}

const digits = "0123456789"

// Find returns the kernel that a user named: by series ("6.1": the newest stored one), by full
// release, or by the file of a bzImage, whose modules it looks for beside the file. A file in the
// working folder that is named like a version takes a slash: "./6.1". The error is for users.
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

// List returns the stored kernels, the newest first.
func List() ([]Kernel, error) {
	var all []Kernel
	for _, store := range stores() {
		kept, err := store.list()
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			// The user's store comes before the host's.
			if !slices.ContainsFunc(all, func(known Kernel) bool { return known.Release == k.Release }) {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b Kernel) int { return compareReleases(b.Release, a.Release) })
	return all, nil
}

// compareReleases orders releases by their numbers.
func compareReleases(a, b string) int {
	for a != "" && b != "" {
		na, nb := leading(a, true), leading(b, true)
		// Releases have no leading zeros: the longer number is the greater.
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

// leading returns the digits that a text begins with, or everything before the first digit.
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
		filepath.Join(folder, "lib", "modules", release),       // made by "make modules_install INSTALL_MOD_PATH=."
		filepath.Join("/lib/modules", release),                 // the host's own kernel
	}
}
