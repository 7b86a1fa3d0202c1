package sanitize

import (
	"fmt"
	"strings"

	"al.essio.dev/pkg/shellescape"
)

// Command is a command line that a POSIX shell takes apart into these words again,
// whatever is in them. It can be shown on a terminal.
func Command(words ...string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Shell(w)
	}
	return strings.Join(quoted, " ")
}

// Shell is a word as a POSIX shell takes it: a plain one stays plain. One with
// characters that a terminal would obey has them as escapes that printf resolves
// when the command is run; line ends at its very end are lost then. A word that
// begins with a hyphen remains one: put it behind its flag, or behind "--".
func Shell(word string) string {
	if Text(word) == word {
		return shellescape.Quote(word)
	}
	var escapes strings.Builder
	for i := range len(word) {
		if b := word[i]; b >= ' ' && b <= '~' && b != '\'' && b != '\\' {
			escapes.WriteByte(b)
		} else {
			fmt.Fprintf(&escapes, `\0%03o`, b)
		}
	}
	return `"$(printf %b '` + escapes.String() + `')"`
}

// Path is [Shell] for the name of a file that stands where a flag could.
func Path(name string) string {
	if strings.HasPrefix(name, "-") {
		name = "./" + name
	}
	return Shell(name)
}
