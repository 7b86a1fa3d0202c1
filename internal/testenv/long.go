package testenv

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// Long is [plain.Long], for tests that need a lab anyway.
func Long() bool { return plain.Long() }

// NeedsLong is [plain.NeedsLong], likewise.
func NeedsLong(t testing.TB) {
	t.Helper()
	plain.NeedsLong(t)
}
