package nft_test

import (
	"testing"

	"github.com/vishvananda/netlink/nl"

	"github.com/venturi-net/venturi/internal/nft"
)

// What the kernel refuses, it is asked once: here, a message that there is not, or its caller's rights.
func TestRefusedDump(t *testing.T) {
	const unknown = 250
	before := nl.NewNetlinkRequest(0, 0).Seq
	if _, err := nft.DumpFilter(unknown); err == nil {
		t.Fatal("the kernel knows the message")
	}
	if asked := nl.NewNetlinkRequest(0, 0).Seq - before - 1; asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}
