package kernel

import (
	"maps"
	"slices"
)

// Default is the series that is fetched when none is named.
const Default = "6.1"

// suites are the series that can be fetched, and the suites of Debian that have
// packages of them, wherever the newest one is.
var suites = map[string][]string{
	"5.10": {"bullseye", "bullseye-security"},
	"6.1":  {"bookworm", "bookworm-security"},
	"6.12": {"bookworm-backports", "trixie", "trixie-security"},
}

// FetchableSeries lists the kernel series that can be fetched, the oldest first.
func FetchableSeries() []string { return slices.SortedFunc(maps.Keys(suites), compareReleases) }
