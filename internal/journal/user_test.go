package journal

import (
	"os"
	"strings"
	"testing"
)

func TestUser(t *testing.T) {
	sudo := map[string]string{"SUDO_USER": "alice", "SUDO_UID": "1000"}
	got := User(func(name string) string { return sudo[name] })
	if !strings.Contains(got, "uid ") || strings.Contains(got, "for alice (uid 1000) by sudo") != (os.Getuid() == 0) {
		t.Errorf("%q", got)
	}
}
