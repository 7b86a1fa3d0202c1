package display

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// pageColumns is how wide prose is on the pages in docs.
const pageColumns = 120

// WrapPage wraps the paragraphs and list items of a page, each of which is one line
// of text. Headings and tables stay as they are.
func WrapPage(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "|") || strings.HasPrefix(line, "#") {
			b.WriteString(line)
			continue
		}
		indent := ""
		if strings.HasPrefix(line, "- ") {
			indent = "  "
		}
		b.WriteString(wrapLine(strings.TrimSuffix(line, "\n"), indent) + "\n")
	}
	return b.String()
}

// wrapLine breaks a line between words, and indents what follows.
func wrapLine(line, indent string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > pageColumns && !startsList(word):
			b.WriteString("\n" + indent)
			column = len(indent)
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// startsList tells whether a word at the start of a line would begin a list.
func startsList(word string) bool { return word == "-" || word == "+" || word == "*" }

func PrintJSON(w io.Writer, v any) error {
	return sanitize.JSON(w, v)
}
