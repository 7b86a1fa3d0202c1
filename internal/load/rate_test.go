package load

import "testing"

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"500": 500, "100k": 1e5, "100K": 1e5, "2.5M": 2.5e6, "20G": 2e10, "0.5": 0.5} {
		got, err := ParseRate(text)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		if again, err := ParseRate(FormatRate(want)); err != nil || again != want {
			t.Errorf("%v is written %s and read %v: %v", want, FormatRate(want), again, err)
		}
	}
	for _, text := range []string{"", "k", "-1", "0", "1e9", "+5", "5T", "NaN", "Inf", "0x10", "1_000", "5 k", "5kk", "999999G", "1.2.3"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}
