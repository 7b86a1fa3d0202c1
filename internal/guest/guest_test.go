package guest_test

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/guest"
)

// Only the first process of a virtual machine takes its role.
func TestOrdinaryProcessIsNoGuest(t *testing.T) {
	for _, args := range [][]string{nil, {"venturi"}, {"venturi", "compare"}, {"venturi", guest.Role}, {"venturi", guest.Role, "serve", ""}} {
		if code, ok := guest.Main(args, os.Stderr); ok {
			t.Errorf("%q: took itself for a guest, and ended with %d", args, code)
		}
	}
}

func TestDeviceNode(t *testing.T) {
	for _, c := range []struct {
		line, file string
		mode       uint32
		device     uint64
	}{
		{"tun net/tun c10:200", "/dev/net/tun", unix.S_IFCHR, unix.Mkdev(10, 200)},
		{"loop loop-control b7:0", "/dev/loop-control", unix.S_IFBLK, unix.Mkdev(7, 0)},
		{line: "# Device nodes to trigger on-demand module loading."},
		{line: ""},
		{line: "evil ../../etc/passwd c1:1"},
		{line: "evil net/x d1:1"},
		{line: "evil net/x c1"},
		{line: "evil net/x c1:y"},
		{line: "evil net/x c"},
	} {
		file, mode, device, ok := guest.DeviceNode(c.line)
		if ok != (c.file != "") || file != c.file || ok && (mode != c.mode || device != c.device) {
			t.Errorf("%q: %s %#o %#x %v", c.line, file, mode, device, ok)
		}
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	var text strings.Builder
	for _, s := range []string{"one", long} {
		if err := guest.WriteLine(&text, s); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(strings.NewReader(text.String() + "rest"))
	for _, want := range []string{"one", long} {
		var got string
		if err := guest.ReadLine(r, &got); err != nil || got != want {
			t.Errorf("%.20q, %v", got, err)
		}
	}
	for _, want := range []error{io.ErrUnexpectedEOF, io.EOF} {
		if err := guest.ReadLine(r, new(string)); err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
	endless := bufio.NewReader(strings.NewReader(strings.Repeat("x", 5<<20)))
	if err := guest.ReadLine(endless, new(string)); err == nil || !strings.Contains(err.Error(), "longer") {
		t.Errorf("endless line: %v", err)
	}
}
