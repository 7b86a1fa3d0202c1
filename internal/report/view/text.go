package view

import (
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Cells measures text as a terminal does. The locale must not matter: a report
// looks the same everywhere.
var Cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

// NoBreak joins words that stay on one line; it is printed as a space.
const NoBreak = "\u00a0"

// PlainSpaces makes spaces of those that join words.
func PlainSpaces(s string) string { return strings.ReplaceAll(s, NoBreak, " ") }

// PlainText makes spaces of them in all lines.
func PlainText(lines []string) []string {
	for i := range lines {
		lines[i] = PlainSpaces(lines[i])
	}
	return lines
}

// Pad fills text up with spaces to so many columns.
func Pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", max(0, width-Cells.StringWidth(s)))
	if left {
		return s + space
	}
	return space + s
}

// Union appends to a what it has not yet of b.
func Union[T comparable](a, b []T) []T {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}
