package verr

import (
	"errors"
	"fmt"
)

// Nearest finds the name that was probably meant; empty if none is near.
func Nearest(typed string, names []string) string {
	best, bestDistance := "", 3 // two typing errors at most
	for _, name := range names {
		if d := Distance(typed, name); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// Suggest adds a name that is near to an error about one that is not there.
func Suggest(err error, near string) error {
	v := new(Error)
	if near == "" || !errors.As(err, &v) || v.Code != Usage {
		return err
	}
	return New(v.Code, v.Summary, v.Reason, fmt.Sprintf("did you mean %s? If not, %s", near, v.Hint))
}

// Distance is the number of letters to insert, delete or replace to make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
