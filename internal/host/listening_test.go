package host

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func TestListeners(t *testing.T) {
	const rest = "00000000:00000000 00:00000000 00000000     0        0"
	word := func(b ...byte) string { return fmt.Sprintf("%08X", binary.NativeEndian.Uint32(b)) } // as the kernel prints it
	var table string
	for inode, socket := range []string{
		"00000000000000000000000000000000:4D35 00000000000000000000000000000000:0000 0A",
		"00000000000000000000000000000000:4D36 00000000000000000000000000000000:0000 0A",
		"00000000000000000000000000000000:4D35 00000000000000000000000000000000:9999 01",
		word(127, 0, 0, 1) + ":4D37 00000000:0000 0A",
		word(127, 0, 0, 2) + ":4D37 00000000:0000 07",
		word(0xfe, 0x80, 0, 0) + word(0, 0, 0, 0) + word(0, 0, 0, 0) + word(0, 0, 0, 1) + ":4D37 00000000000000000000000000000000:0000 0A",
		word(0, 0, 0, 0) + word(0, 0, 0, 0) + word(0, 0, 0xff, 0xff) + word(127, 0, 0, 1) + ":4D37 00000000000000000000000000000000:0000 0A",
	} {
		table += fmt.Sprintf("   0: %s %s %d 1 0 100 0 0 10 0\n", socket, rest, inode)
	}
	for at, want := range map[netip.AddrPort][]string{
		netip.AddrPortFrom(netip.Addr{}, 0x4D35):     {"0"},
		netip.MustParseAddrPort("192.0.2.1:19765"):   {"0"}, // 0x4D35: it is at all addresses
		netip.AddrPortFrom(netip.Addr{}, 0x4D37):     {"3", "4", "5", "6"},
		netip.MustParseAddrPort("0.0.0.0:19767"):     {"3", "4", "5", "6"},
		netip.MustParseAddrPort("127.0.0.1:19767"):   {"3", "6"},
		netip.MustParseAddrPort("127.0.0.2:19767"):   {"4"},
		netip.MustParseAddrPort("127.0.0.3:19767"):   nil,
		netip.MustParseAddrPort("[fe80::1%9]:19767"): {"5"},
	} {
		if got := listeners(table, at); !slices.Equal(got, want) {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
}
