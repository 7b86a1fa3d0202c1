package nic

import (
	"strings"
	"testing"
)

// TestFilterKeepsRules: the filter is not turned off under somebody's rules.
func TestFilterKeepsRules(t *testing.T) {
	if err := keepsRules("eth0", 0); err != nil {
		t.Error(err)
	}
	if err := keepsRules("eth0", 2); err == nil || !strings.Contains(err.Error(), "2 rules") {
		t.Errorf("with rules: %v", err)
	}
}
