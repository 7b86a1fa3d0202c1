package testenv

import (
	"fmt"
	"slices"
	"strings"
)

// Difference lists the lines that only one of two texts has; of texts with the same lines, those
// that are elsewhere.
func Difference(before, after string) string {
	var out strings.Builder
	a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
	only := func(sign string, lines, other []string) {
		for _, line := range lines {
			if !slices.Contains(other, line) {
				fmt.Fprintf(&out, "%s %s\n", sign, line)
			}
		}
	}
	only("-", a, b)
	only("+", b, a)
	for i := range min(len(a), len(b)) {
		if out.Len() == 0 && a[i] != b[i] {
			fmt.Fprintf(&out, "in line %d: %s\nis now: %s\n", i+1, a[i], b[i])
		}
	}
	return out.String()
}
