package sanitize

import (
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Files lists the files below a folder that match a pattern, as filepath.Glob
// does, with the folder before them. The folder is no part of the pattern: its
// name may have brackets and stars, as a device's name may. An error is a bad
// pattern.
func Files(folder, pattern string) ([]string, error) {
	found := []string{folder}
	for _, part := range strings.Split(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return nil, err
		}
		var below []string
		for _, f := range found {
			below = append(below, matches(f, part)...)
		}
		found = below
	}
	return found, nil
}

// matches lists what in a folder matches a good pattern without slashes.
func matches(folder, pattern string) (files []string) {
	if !strings.ContainsAny(pattern, `*?[\`) {
		file := filepath.Join(folder, pattern)
		if _, err := os.Lstat(file); err != nil {
			return nil
		}
		return []string{file}
	}
	entries, _ := os.ReadDir(folder) // what cannot be read has no files to show
	for _, e := range entries {
		if ok, _ := path.Match(pattern, e.Name()); ok {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	return files
}
