package setting

import (
	"maps"
	"math/bits"
	"path"
	"strconv"
	"strings"
)

// matchesText is [equivalentText], and knows which files the kernel rounds up.
func matchesText(s Setting, asked, found Value) bool {
	if equivalentText(s, asked, found) {
		return true
	}
	if name := path.Base(s.Key); name != "rps_sock_flow_entries" && name != "rps_flow_cnt" {
		return false
	}
	a, err1 := strconv.ParseUint(strings.TrimSpace(string(asked.Data)), 10, 32)
	f, err2 := strconv.ParseUint(strings.TrimSpace(string(found.Data)), 10, 32)
	return err1 == nil && err2 == nil && a > 1 && f == 1<<bits.Len64(a-1)
}

// equivalentText compares words, and masks by what they mean: "3" is written, and
// "00000000,00000003" is found.
func equivalentText(s Setting, asked, found Value) bool {
	a, b := strings.Fields(string(asked.Data)), strings.Fields(string(found.Data))
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] && (!masks[path.Base(s.Key)] || !equivalentMask(a[i], b[i])) {
			return false
		}
	}
	return true
}

// masks are the names of the files that hold a mask in hexadecimal digits. In any
// other file a comma or a leading zero means something.
var masks = map[string]bool{
	"rps_cpus": true, "xps_cpus": true, "xps_rxqs": true, "flow_limit_cpu_bitmap": true, "rps_default_mask": true,
	"smp_affinity": true, "default_smp_affinity": true, "cpumask": true,
}

func equivalentMask(a, b string) bool {
	bare := func(s string) string {
		if strings.Trim(s, "0123456789abcdefABCDEF,") != "" {
			return "?" + s
		}
		return strings.ToLower(strings.TrimLeft(strings.ReplaceAll(s, ",", ""), "0"))
	}
	return bare(a) == bare(b)
}

// equivalentCores compares lists of cores by what they mean: "0,1" is written, and
// "0-1" is found.
func equivalentCores(asked, found Value) bool {
	a, err1 := parseCores(asked.String())
	f, err2 := parseCores(found.String())
	return err1 == nil && err2 == nil && maps.Equal(a, f)
}

// parseCores reads a list of cores, "0-3,8".
func parseCores(list string) (map[uint64]bool, error) {
	cores := map[uint64]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, err
		}
		for n := from; n <= to; n++ {
			cores[n] = true
		}
	}
	return cores, nil
}

// anySetting makes what compares two values of any setting of a backend.
func anySetting(same func(asked, found Value) bool) func(Setting, Value, Value) bool {
	return func(_ Setting, asked, found Value) bool { return same(asked, found) }
}
