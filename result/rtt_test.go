package result

import (
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms of ours are decoded as the library decodes them, and none of them by the detour.
func TestOwnBuckets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		h := NewRTT()
		for range rng.IntN(300) {
			if err := h.RecordValues(min(MaxRTT, rng.Int64N(1<<(1+rng.IntN(37)))), 1+rng.Int64N(1<<rng.IntN(40))); err != nil {
				t.Fatal(err)
			}
		}
		switch i {
		case 0:
			h = NewRTT()
		case 1:
			h.RecordValue(MaxRTT)
		case 2:
			h.RecordValue(0)
		}
		enc, err := EncodeRTT(h)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := hdrhistogram.DecodePacked([]byte(base64.StdEncoding.EncodeToString(enc)))
		if err != nil {
			t.Fatal(err)
		}
		var want []Bucket
		for value, count := range packed.ForEachBucket {
			want = append(want, Bucket{value, count})
		}
		if got, ok := ownBuckets(enc); !ok || !slices.Equal(got, want) {
			t.Fatalf("%d: %v, %v, want %v", i, got, ok, want)
		}
		for range 20 { // a byte of each is damaged: the checksum tells, or the library agrees
			bad := slices.Clone(enc)
			bad[rng.IntN(len(bad))] ^= 1 << rng.IntN(8)
			got, ok := ownBuckets(bad)
			packed, err := hdrhistogram.DecodePacked([]byte(base64.StdEncoding.EncodeToString(bad)))
			if ok && (err != nil || int(packed.Populated()) != len(got)) {
				t.Fatalf("%d: damaged to %x, and read as %v: the library says %v", i, bad, got, err)
			}
		}
	}
}

// An end that is missing, and what follows it, are the library's to judge.
func TestOwnBucketsCut(t *testing.T) {
	h := NewRTT()
	h.RecordValues(1000, 5)
	enc, err := EncodeRTT(h)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"empty": nil, "cut": enc[:len(enc)-1], "longer": append(slices.Clone(enc), 0)} {
		if got, ok := ownBuckets(bad); ok {
			t.Errorf("%s is read as %v", name, got)
		}
	}
}
