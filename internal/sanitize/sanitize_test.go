package sanitize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"eth0":               "eth0",
		"äöü 漢字 €":           "äöü 漢字 €",
		`a\b`:                `a\b`,
		"a\x1b[2Jb":          `a\x1b[2Jb`,
		"a\nb\tc\r\v\f":      `a\nb\tc\r\v\f`,
		"\x00\x7f":           `\x00\x7f`,
		"\u009b31m":          `\u009b31m`,
		"a\u202eb\u2066c":    `a\u202eb\u2066c`,
		"a\u200bb\ufeff":     `a\u200bb\ufeff`,
		"a\u00a0b\u2028":     `a\u00a0b\u2028`,
		"x\U000e0041":        `x\U000e0041`,
		"a\u3164b\ufe0f":     `a\u3164b\ufe0f`,
		"bad \xff\xc3 utf-8": `bad \xff\xc3 utf-8`,
	} {
		if got := Text(text); got != want {
			t.Errorf("Text(%q) = %q, want %q", text, got, want)
		}
	}
	if got := Lines("a\n\tb\x1b\r\n"); got != "a\n\tb\\x1b\\r\n" {
		t.Errorf("Lines: %q", got)
	}
}

// Whatever the arguments are, no raw character of theirs is printed, and numbers
// and widths are those of fmt.
func TestFprintf(t *testing.T) {
	type named string
	const evil = "a\x1b[31m\nb"
	for i, args := range [][]any{
		{evil}, {named(evil)}, {errors.New(evil)}, {[]string{evil}}, {struct{ A string }{evil}}, {&struct{ A string }{evil}},
		{map[string]int{evil: 1}}, {[]byte(evil)}, {bytes.NewBufferString(evil)},
	} {
		for _, format := range []string{"%s", "%v", "%+v", "%-20v|"} {
			var out strings.Builder
			if Fprintf(&out, format, args...); strings.ContainsAny(out.String(), "\x1b\n") {
				t.Errorf("%d, %s: %q", i, format, out.String())
			}
		}
	}
	for _, c := range []struct {
		format string
		args   []any
	}{
		{"%5d|%-4s|%6.2f|%t|%v|%x", []any{3, "ab", 1.5, true, nil, 255}},
		{"%[1]d %[1]v %s %v", []any{7, 90 * time.Second, time.Second}},
		{"%*d %q %v", []any{6, 3, "a\nb", []int{1, 2}}},
		{"%d %s", []any{time.Second, errors.New("broken")}},
	} {
		got := string(Sprintf(c.format, c.args...))
		want := fmt.Sprintf(c.format, c.args...)
		if got != want && c.format != "%*d %q %v" {
			t.Errorf("%s: %q, fmt gives %q", c.format, got, want)
		}
	}
	if got := Sprintf("%s\n", Safe("a\tb")); got != "a\tb\n" {
		t.Errorf("of safe text: %q", got)
	}
}

// hostile are names that somebody may give a device, a namespace or a lab.
var hostile = []string{
	"eth0", "", ";touch${IFS}p;#", "$(touch p)", "`touch p`", "a'b", `a"b`, `a\b`, "a b", "*", "a[b", "~", "-rf", "--", "#", "!x", "{a,b}", "a&touch p", "é",
	"a\nb", "a\x1b[31m;touch p'", "%s%n\\045\x01", "\xff", "x\u202ey", "a\\c\x01b", "'\x1b'$(touch p)",
}

// A shell takes a word back as it was, and runs nothing.
func TestShell(t *testing.T) {
	for _, sh := range []string{"sh", "bash", "dash", "busybox"} {
		program, err := exec.LookPath(sh)
		if err != nil {
			continue
		}
		args := []string{"-c"}
		if sh == "busybox" {
			args = []string{"sh", "-c"}
		}
		line := Command(append([]string{"printf", `<%s>\n`, "--"}, hostile...)...)
		cmd := exec.Command(program, append(args, line)...)
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		want := "<--><" + strings.Join(hostile, ">\n<") + ">\n"
		want = strings.Replace(want, "<--><", "<-->\n<", 1)
		if err != nil || string(out) != want {
			t.Errorf("%s: %v\nran  %s\ngot  %q\nwant %q", sh, err, line, out, want)
		}
		left, err := exec.Command("ls", "-A", cmd.Dir).Output()
		if err != nil || len(left) > 0 {
			t.Errorf("%s made files: %s (%v)", sh, left, err)
		}
	}
	for _, word := range hostile {
		if got := Shell(word); Text(got) != got {
			t.Errorf("Shell(%q) is not to be shown: %q", word, got)
		}
	}
	if got := Command("venturi", "--dev", "eth0.5", "rx=1,tx=2", "/run/netns/a:b"); got != "venturi --dev eth0.5 rx=1,tx=2 /run/netns/a:b" {
		t.Errorf("plain words: %s", got)
	}
	if got := Path("-x"); got != "./-x" {
		t.Errorf("a file like a flag: %s", got)
	}
}

func TestCSV(t *testing.T) {
	for field, want := range map[string]string{
		"": "", "host": "host", "-1.5": "-1.5", "+2": "+2", "1e-9": "1e-9", "-": "'-", "NaN": "NaN",
		"=HYPERLINK(\"http://x\")": "'=HYPERLINK(\"http://x\")", "+cmd|x": "'+cmd|x", "-1+1": "'-1+1", "@SUM(A1)": "'@SUM(A1)",
		"\t=1": `\t=1`, "\r=1": `\r=1`, " =1": "' =1", "＝1": "'＝1", "a=b": "a=b",
	} {
		if got := CSV(field); got != want {
			t.Errorf("CSV(%q) = %q, want %q", field, got, want)
		}
	}
}

func TestMarkdown(t *testing.T) {
	for text, want := range map[string]string{
		"vxlan, 12 %":        "vxlan, 12 %",
		"![x](http://h/p)":   `\!\[x\](http:\/\/h/p)`,
		"[a](b) a|b *c* _d_": `\[a\](b) a\|b \*c\* \_d\_`,
		"<img src=x> & `e`":  "&lt;img src=x&gt; &amp; \\`e\\`",
		`a\*b`:               `a\\\*b`,
		"www.evil\n# x":      `www\.evil\\n# x`,
	} {
		if got := Markdown(text); got != want {
			t.Errorf("Markdown(%q) = %q, want %q", text, got, want)
		}
	}
}

// JSON holds the same strings and shows none of them raw.
func TestJSON(t *testing.T) {
	in := map[string]string{"a\u202e": "x\x1b\x7f\u0085\u200b\U000e0041é<\n"}
	var out bytes.Buffer
	if err := JSON(&out, in); err != nil {
		t.Fatal(err)
	}
	var back map[string]string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back["a\u202e"] != in["a\u202e"] {
		t.Errorf("%q (%v) of %s", back, err, &out)
	}
	for _, r := range out.String() {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("raw %q in %q", r, &out)
		}
	}
}

// FuzzText: whatever comes in, what comes out can be shown, and stays so.
func FuzzText(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for what, clean := range map[string]string{"text": Text(s), "shell": Shell(s), "markdown": Markdown(s), "csv": CSV(s)} {
			if !utf8.ValidString(clean) || strings.IndexFunc(clean, func(r rune) bool { return !unicode.IsPrint(r) }) >= 0 {
				t.Errorf("%s of %q: %q", what, s, clean)
			}
		}
		if once := Text(s); Text(once) != once {
			t.Errorf("twice: %q of %q", Text(once), s)
		}
	})
}

// The name of a folder is no pattern: it is found, and no other for it.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{"a[b/queues/rx-0/cpus", "*/queues/rx-1/cpus", "other/queues/rx-2/cpus", "a[b/queues/tx-0/cpus", "bad\xff/queues/rx-3/cpus"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		folder, pattern string
		want            int
	}{
		{"a[b", "queues/rx-*/cpus", 1}, {"*", "queues/rx-*/cpus", 1}, {"bad\xff", "queues/*/cpus", 1}, {"", "*/queues/rx-*/cpus", 4}, {"none", "*", 0}, {"a[b", "queues/tx-0/cpus", 1}, {"a[b", "queues/tx-1/cpus", 0},
	} {
		found, err := Files(filepath.Join(root, c.folder), c.pattern)
		if err != nil || len(found) != c.want {
			t.Errorf("%s in %q: %q, %v", c.pattern, c.folder, found, err)
		}
		for _, file := range found {
			if _, err := os.Stat(file); err != nil || !strings.HasPrefix(file, filepath.Join(root, c.folder)+"/") {
				t.Errorf("%s in %q: %q (%v)", c.pattern, c.folder, file, err)
			}
		}
	}
	if _, err := Files(root, "a[/b"); err == nil {
		t.Error("a bad pattern is no error")
	}
}
