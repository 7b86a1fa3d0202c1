package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// nearestFlag finds the flag that was probably meant in the text of an
// "unknown flag" error; empty if none is near.
func nearestFlag(cmd *cobra.Command, text string) string {
	_, typed, found := strings.Cut(text, "unknown flag: --")
	if !found {
		return ""
	}
	best, bestDistance := "", 3 // two typing errors at most
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		d := distance(typed, f.Name)
		if strings.HasPrefix(f.Name, typed) && len(typed) > 1 {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = f.Name, d
		}
	})
	return best
}

// distance is the number of letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
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
