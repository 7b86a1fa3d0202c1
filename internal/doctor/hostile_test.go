package doctor

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unicode"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// The root of a container names its devices, and the administrator's doctor prints
// a command with the name in it. Pasted to a shell, it is the command that it
// looks like.
func TestMendIsSafeToPaste(t *testing.T) {
	for _, name := range []string{";touch${IFS}p;#", "$(touch${IFS}p)", "`touch>p`", "a'b", "*", "a[b", "-rf", "a\x1b[2Jb", "x\u202ey", "\xff\x01"} {
		r := healthy()
		r.port.Name, r.eth0.MTU = name, 1440
		report := Judge(r.View, Options{})
		var text, asJSON bytes.Buffer
		if err := Print(&text, report); err != nil {
			t.Fatal(err)
		}
		if err := sanitize.JSON(&asJSON, report); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{text.String(), asJSON.String()} {
			if at := strings.IndexFunc(out, func(c rune) bool { return c != '\n' && !unicode.IsPrint(c) || c == unicode.ReplacementChar }); at >= 0 {
				t.Errorf("%q: raw %q is printed in:\n%s", name, out[at:at+1], out)
			}
		}
		mend := ""
		for _, f := range report.Findings {
			if f.Code == "mtu-pair" {
				mend = f.Fix
			}
		}
		if !strings.Contains(text.String(), "    fix     "+mend+"\n") {
			t.Errorf("%q: %q is not printed as it is in JSON", name, mend)
		}
		folder := t.TempDir()
		cmd := exec.Command("sh", "-c", `venturi() { printf '<%s>' "$@"; }; `+mend)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		if want := "<knob><set><nic.mtu><1440><--dev><" + name + ">"; err != nil || string(out) != want {
			t.Errorf("%s\nran as %q (%v), want %q", mend, out, err, want)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) > 0 {
			t.Errorf("%s\nmade %v (%v)", mend, files, err)
		}
	}
}
