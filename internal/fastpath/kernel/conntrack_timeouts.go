package kernel

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Timeouts are how long conntrack keeps connections, in seconds.
type Timeouts struct {
	Established uint32 // of an established connection; 0: nothing is tracked
	Shortest    uint32 // that any packet may choose
}

// ReadTimeouts reads the timeouts of protocols in the calling thread's network namespace. Their sysctls are named, that
// of established connections first.
func ReadTimeouts(sysctls map[uint8][]string) (all [256]Timeouts, err error) {
	for protocol, names := range sysctls {
		var seconds []uint32
		for _, name := range names {
			n, tracks, err := readTimeout(name)
			if err != nil {
				return all, err
			}
			if tracks {
				seconds = append(seconds, n)
			}
		}
		if len(seconds) > 0 {
			all[protocol] = Timeouts{seconds[0], slices.Min(seconds)}
		}
	}
	return all, nil
}

// readTimeout reads one, in seconds; false: this kernel tracks nothing.
func readTimeout(name string) (seconds uint32, tracks bool, err error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/nf_conntrack_" + name)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 31)
	return uint32(n), true, err
}
