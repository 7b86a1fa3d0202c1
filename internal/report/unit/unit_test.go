package unit

import (
	"testing"
	"time"
)

func TestUnits(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{Duration(812), "812 ns"}, {Duration(8410), "8.41 us"}, {Duration(999.6), "1.00 us"},
		{Duration(16_800), "16.8 us"}, {Duration(2.5e9), "2.50 s"}, {Duration(0.5), "0.500 ns"},
		{Bits(31.24e9), "31.2 Gb/s"}, {Bits(999.96e6), "1.00 Gb/s"}, {Bits(500), "500 b/s"},
		{Rate(1.234e6, "msg"), "1.23 M msg/s"}, {Count(9999), "9999"}, {Count(1_200_000), "1.20 M"},
		{Sig3(9.996), "10.0"}, {Sig3(99.96), "100"}, {Sig3(1234), "1230"}, {Sig3(0), "0"}, {Sig3(-8.414), "-8.41"},
		{Percent(0.008), "0.8 %"}, {Percent(0.37), "37 %"}, {Percent(0.00012), "0.012 %"}, {Percent(0), "0 %"}, {Percent(0.0996), "10 %"},
		{Change(1.37), "+37 %"}, {Change(0.48), "-52 %"}, {Change(1.0001), "0 %"}, {Change(1.082), "+8.2 %"}, {Change(12.3), "x 12.3"},
		{Ratio(1.0824), "1.082"}, {Ratio(12.34), "12.3"}, {Ratio(0.01234), "0.0123"},
		{MessageSize(1), "1 B"}, {MessageSize(65536), "64 KiB"}, {MessageSize(1000), "1000 B"}, {MessageSize(1 << 20), "1 MiB"},
		{ExactPercent(0.03), "3 %"}, {ExactPercent(0.975), "97.5 %"}, {ExactPercent(0.95), "95 %"},
		{Elapsed(1500 * time.Millisecond), "1.5s"}, {Elapsed(78 * time.Second), "1m18s"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
