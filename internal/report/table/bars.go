package table

import (
	"math"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/report/unit"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/stats"
)

const (
	// barWidth is how wide a bar is, columns. It is odd, so that 1 can be in the middle.
	barWidth = 21
	// barRank drops bars from a narrow table before any figure that a verdict rests on.
	barRank = 2
)

// The marks of a bar. All are one column wide in every locale but those of East Asia.
const (
	markOne   = '│' // no difference
	markFloor = '░' // the noise floor
	markRange = '━' // the interval
	markValue = '┿' // the ratio
)

// barsFact tells how to read a bar.
var barsFact = [2]string{"bars", "the interval on a logarithmic scale; ┿ is the ratio, │ no difference, ░ the noise floor"}

// addBars adds a column with the intervals as bars to each block that has some.
func addBars(v *view.Content) {
	added := false
	for i, b := range v.Blocks {
		if scale, ok := newBarScale(b); ok {
			v.Blocks[i], added = withBars(b, scale), true
		}
	}
	if added {
		v.Facts = append(v.Facts, barsFact)
	}
}

// withBars adds the bars of one block, all on one scale.
func withBars(b view.Block, scale barScale) view.Block {
	at := b.BarsAt
	b.Columns = slices.Insert(slices.Clone(b.Columns), at, view.Column{Head: scale.head(), LeftAlign: true, Rank: barRank})
	rows := make([][]string, len(b.Rows))
	for i, row := range b.Rows {
		bar := ""
		if i < len(b.Ratios) && b.Ratios[i] != nil {
			bar = scale.bar(*b.Ratios[i])
		}
		rows[i] = slices.Insert(slices.Clone(row), at, bar)
	}
	b.Rows = rows
	return b
}

// barScale maps a ratio to a column.
type barScale struct {
	low, high float64 // the ratios at its ends
	floor     float64 // the noise floor, a share; 0: unknown
}

// newBarScale covers 1 and every interval of a block; false: there is none.
func newBarScale(b view.Block) (barScale, bool) {
	s := barScale{low: 1, high: 1, floor: b.FloorSize}
	found := false
	for _, r := range b.Ratios {
		if r == nil || !drawable(*r) {
			continue
		}
		found = true
		s.low, s.high = min(s.low, r.Lo), max(s.high, r.Hi)
	}
	if !found {
		return s, false
	}
	s.low, s.high = min(s.low, 1/(1+s.floor)), max(s.high, 1+s.floor)
	return s, s.high > s.low
}

// drawable tells whether an interval has two ends on a logarithmic axis.
func drawable(r stats.Ratio) bool {
	return !r.Open && r.Lo > 0 && r.Lo <= r.Value && r.Value <= r.Hi && !math.IsInf(r.Hi, 0)
}

func (s barScale) column(ratio float64) int {
	share := math.Log(ratio/s.low) / math.Log(s.high/s.low)
	return min(max(int(math.Round(share*(barWidth-1))), 0), barWidth-1)
}

// head labels the ends of the scale, and 1 where there is room for it.
func (s barScale) head() string {
	line := []rune(strings.Repeat(" ", barWidth))
	low, high := []rune(unit.ShortRatio(s.low)), []rune(unit.ShortRatio(s.high))
	copy(line, low)
	copy(line[barWidth-len(high):], high)
	if one := s.column(1); one > len(low) && one < barWidth-len(high)-1 {
		line[one] = '1'
	}
	return string(line)
}

// bar draws one interval over the noise floor.
func (s barScale) bar(r stats.Ratio) string {
	if !drawable(r) {
		return ""
	}
	line := []rune(strings.Repeat(" ", barWidth))
	fill := func(from, to float64, mark rune) {
		for i := s.column(from); i <= s.column(to); i++ {
			line[i] = mark
		}
	}
	if s.floor > 0 {
		fill(1/(1+s.floor), 1+s.floor, markFloor)
	}
	line[s.column(1)] = markOne
	fill(r.Lo, r.Hi, markRange)
	line[s.column(r.Value)] = markValue
	return string(line)
}
