// Package sanitize makes text from outside safe to print: names of devices and
// namespaces, records, manifests, values that a kernel or a database shows, and
// whatever somebody typed. Whoever can name a device must not move a cursor, add
// a line to a report, or put a command into one that an administrator pastes.
//
// There is a function for each place that text is printed to: [Text] for a
// terminal, [Shell] for a command line, [CSV], [Markdown] and [JSON]. Printers
// write with [Fprintf] and its kin, which clean every argument.
package sanitize

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text makes a text one line without characters that a terminal obeys or does not
// show: controls, bidirectional overrides, format characters and invalid UTF-8 are
// shown as escapes. Applied twice, it does what it does once.
func Text(s string) string { return escaped(s, "") }

// Lines is [Text] for a text of several lines; tabs stay too.
func Lines(s string) string { return escaped(s, "\n\t") }

// escaped keeps what can be shown, and the characters in keep.
func escaped(s, keep string) string {
	shown := func(r rune) bool { return isShown(r) || strings.ContainsRune(keep, r) }
	if utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !shown(r) }) < 0 {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, s[0])
		case shown(r):
			out.WriteString(s[:size])
		default:
			quoted := strconv.QuoteRuneToASCII(r) // 'x', with its escape
			out.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[size:]
	}
	return out.String()
}

// isShown tells whether a terminal shows a character and does nothing else. Some
// letters and marks are to be ignored where they are not known, so that two names
// which differ look alike.
func isShown(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
