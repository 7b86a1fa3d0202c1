package vm

import (
	"testing"
	"time"
)

// HangPart is the part of their StartLimit for which machines of a test may say nothing while they boot.
func HangPart(t *testing.T, part time.Duration) {
	before := hangPart
	t.Cleanup(func() { hangPart = before })
	hangPart = part
}
