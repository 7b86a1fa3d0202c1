package qperf

import "testing"

func TestUnits(t *testing.T) {
	for _, tc := range []struct{ got, want string }{
		{size(65536), "64 KiB (65,536)"}, {size(1), "1 bytes"}, {size(1500), "1,500 bytes"},
		{size(1000), "1 KB"}, {bits(31.24e9), "31.2 Gb/sec"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
}
