package host

import (
	"os"
	"slices"
	"strings"
)

// DebianLike tells whether the machine has Debian, or a system that comes from it. One that does not
// say what it is counts as such.
func (r Reader) DebianLike() bool {
	names := strings.Fields(r.osRelease("ID") + " " + r.osRelease("ID_LIKE"))
	return len(names) == 0 || slices.Contains(names, "debian") || slices.Contains(names, "ubuntu")
}

// osRelease reads what the system says of itself, see os-release(5); empty: nothing.
func (r Reader) osRelease(key string) string {
	text, _ := os.ReadFile(r.path("etc/os-release"))
	for _, line := range strings.Split(string(text), "\n") {
		if value, ok := strings.CutPrefix(line, key+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}
