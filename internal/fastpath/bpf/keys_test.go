package bpf

import (
	"regexp"
	"testing"
)

// A count without a key of its own could not be told from others in a record.
func TestKeys(t *testing.T) {
	seen := map[string]Count{}
	for c := range Counts {
		key := c.Key()
		if other, taken := seen[key]; taken || !regexp.MustCompile(`^(carried|slow)_[a-z0-9_]+$`).MatchString(key) {
			t.Errorf("count %d (%s) has the key %q, %d too", c, c, key, other)
		}
		seen[key] = c
	}
}
