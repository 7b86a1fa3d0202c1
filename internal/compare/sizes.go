package compare

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// mostSizes bounds a sweep: more cells than this no budget covers.
const mostSizes = 64

// ParseSizes reads message sizes as qperf's -oo does: SIZE, or
// FIRST:LAST:*FACTOR, or FIRST:LAST:STEP, both ends inclusive, and lists of
// these with commas. K is 1024 and k is 1000, likewise M and m.
func ParseSizes(text string) ([]int, error) {
	var sizes []int
	for _, item := range strings.Split(text, ",") {
		more, err := parseRange(item)
		if err != nil {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot read the sizes %q", text), err.Error(),
				"write them as 64, or 1,1K,64K, or 8:256K:*2 (first:last:*factor), or 100:500:100 (first:last:step)")
		}
		sizes = append(sizes, more...)
	}
	if len(sizes) > mostSizes {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot sweep over %d sizes", len(sizes)),
			fmt.Sprintf("a run holds at most %d", mostSizes), "choose larger steps; 8:256K:*2 makes 16 sizes")
	}
	return sizes, nil
}

// ParseResponse reads the size of answers.
func ParseResponse(text string) (int, error) {
	sizes, err := ParseSizes(text)
	if err != nil {
		return 0, err
	}
	if len(sizes) > 1 {
		return 0, verr.New(verr.Usage, "cannot compare with --response "+text, "all answers have the same size", "give one size, such as 16K")
	}
	return sizes[0], nil
}

func parseRange(item string) ([]int, error) {
	parts := strings.Split(item, ":")
	first, err := parseSize(parts[0])
	if err != nil {
		return nil, err
	}
	switch len(parts) {
	case 1:
		return []int{first}, nil
	case 3:
	default:
		return nil, fmt.Errorf("%q is neither a size nor first:last:step", item)
	}
	last, err := parseSize(parts[1])
	if err != nil {
		return nil, err
	}
	factor, multiplies := strings.CutPrefix(parts[2], "*")
	step, err := parseSize(factor)
	if err != nil {
		return nil, err
	}
	if last < first {
		return nil, fmt.Errorf("%q ends before it begins", item)
	}
	if multiplies && step < 2 {
		return nil, fmt.Errorf("%q never ends: the factor is below 2", item)
	}
	var sizes []int
	for n := first; n <= last && len(sizes) <= mostSizes; {
		sizes = append(sizes, n)
		if multiplies && n > last/step { // and might overflow
			break
		}
		if multiplies {
			n *= step
		} else {
			n += step
		}
	}
	return sizes, nil
}

var suffixes = map[byte]int{'K': 1 << 10, 'k': 1000, 'M': 1 << 20, 'm': 1000_000}

func parseSize(s string) (int, error) {
	digits, unit := s, 1
	if n := len(s); n > 0 {
		if u, ok := suffixes[s[n-1]]; ok {
			digits, unit = s[:n-1], u
		}
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > 1<<30 || digits[0] == '+' {
		return 0, fmt.Errorf("%q is not a number of bytes of at least 1", s)
	}
	return n * unit, nil
}
