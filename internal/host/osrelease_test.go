package host

import (
	"os"
	"path/filepath"
	"testing"
)

// Systems that come from Debian say so, or come from one that does.
func TestDebianLike(t *testing.T) {
	for text, want := range map[string]bool{
		"": true,
		"PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n":             true,
		"ID=ubuntu\nID_LIKE=debian\n":                                             true,
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\n":                               true,
		"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n":                          false,
		"ID=alpine\nPRETTY_NAME=\"Alpine, no debian\"\nHOME_URL=https://debian\n": false,
	} {
		r := Reader{Root: t.TempDir()}
		if err := os.Mkdir(filepath.Join(r.Root, "etc"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(r.Root, "etc/os-release"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := r.DebianLike(); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
