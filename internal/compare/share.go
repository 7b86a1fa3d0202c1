package compare

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseShare reads a part of a whole: 3%, as load.FormatShare writes it, or 0.03.
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
