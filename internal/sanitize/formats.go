package sanitize

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// CSV is the text of a field that no spreadsheet takes for a formula. Numbers stay
// as they are. Commas and quotes are for the writer of the file.
func CSV(field string) string {
	field = Text(field)
	if _, err := strconv.ParseFloat(field, 64); err == nil {
		return field
	}
	// The wide forms count as the others in some locales.
	if begin := strings.TrimLeft(field, " "); begin != "" && strings.ContainsRune("=+-@＝＋－＠", []rune(begin)[0]) {
		return "'" + field
	}
	return field
}

// marks are what Markdown reads as more than text: tags, tables, emphasis, code,
// links, images, mathematics, and addresses that become links by themselves.
var marks = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "~", `\~`, "$", `\$`, "|", `\|`,
	"[", `\[`, "]", `\]`, "![", `\!\[`,
	"<", "&lt;", ">", "&gt;", "&", "&amp;",
	"://", `:\/\/`, "www.", `www\.`, "WWW.", `WWW\.`,
)

// Markdown is a text that Markdown shows as it is.
func Markdown(s string) string { return marks.Replace(Text(s)) }

// JSON writes a value as indented JSON. The strings in it keep their values; what
// [Text] would not show is escaped, and so is what HTML would take for a tag.
func JSON(w io.Writer, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(escapedJSON(text.Bytes()))
	return err
}

// escapedJSON escapes what is not to be shown. In JSON that is inside of strings
// only, but for line ends.
func escapedJSON(text []byte) []byte {
	var out []byte
	for _, r := range string(text) {
		if r == '\n' || isShown(r) {
			out = append(out, string(r)...)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			hex := strconv.FormatUint(uint64(unit), 16)
			out = append(out, `\u`+strings.Repeat("0", 4-len(hex))+hex...)
		}
	}
	return out
}
