package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseShare reads a part of a whole: 3%, or 0.03.
func ParseShare(text string) (float64, error) {
	digits, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("%q is not a share such as 3%% or 0.03", text)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// FormatShare writes a part of a whole as ParseShare reads it: 3%.
func FormatShare(v float64) string { return strconv.FormatFloat(100*v, 'g', 4, 64) + "%" }
