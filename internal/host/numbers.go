package host

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostNumber is above the number of any core, queue or node.
const mostNumber = 8192

// ParseNumbers reads a list of numbers and spans, in ascending order.
func ParseNumbers(list string) ([]int, error) {
	if list == "none" {
		return nil, nil
	}
	var numbers []int
	for span := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(span), "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last < first || last >= mostNumber {
			return nil, fmt.Errorf("%q is neither a number nor a range of numbers", span)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// FormatNumbers writes numbers in ascending order as the kernel does: "0-3,8".
func FormatNumbers(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ",")
}
