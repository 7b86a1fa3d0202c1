package layout

import "strings"

// Full is which threads and cores had no time left.
type Full struct {
	Names []string `json:"names"`
}

// text lists them.
func (f *Full) text() string {
	if len(f.Names) == 0 {
		return "none"
	}
	return strings.Join(f.Names, ", ")
}
