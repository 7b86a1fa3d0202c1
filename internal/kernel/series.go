package kernel

import (
	"maps"
	"slices"
)

// Default is the series to fetch when none is named.
const Default = "6.1"

// suites are the series that can be fetched, with the Debian suites that may have the newest
// package of each.
var suites = map[string][]string{
	"5.10": {"bullseye", "bullseye-security"},
	"6.1":  {"bookworm", "bookworm-security"},
	"6.12": {"bookworm-backports", "trixie", "trixie-security"},
}

// FetchableSeries lists the kernel series that can be fetched, the oldest first.
func FetchableSeries() []string { return slices.SortedFunc(maps.Keys(suites), compareReleases) }
