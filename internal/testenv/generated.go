package testenv

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Generated says how many cases a test generates, and from which seed. The environment variable has a
// number (1000), for which the seed is new each time, or a seed in front of it (7:1000), as a failure
// names it. Without the variable they are the same few each time: what is found is then no chance.
func Generated(t testing.TB, variable string, few int) (seed uint64, many int) {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return 1, few
	}
	seed = uint64(time.Now().UnixNano())
	if before, after, ok := strings.Cut(text, ":"); ok {
		n, err := strconv.ParseUint(before, 10, 64)
		Must(t, err)
		seed, text = n, after
	}
	many, err := strconv.Atoi(text)
	Must(t, err)
	return seed, many
}
