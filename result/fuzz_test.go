package result_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/venturi-net/venturi/result"
)

func FuzzRead(f *testing.F) {
	text := encode(f, small())
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(`{"header":{"format":"venturi-record","version":1}}` + "\n{}\n"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := result.Read(bytes.NewReader(data))
		var syntax *result.SyntaxError
		switch {
		case err == nil:
			// What can be read can be written, and comes back as it was.
			again, err := result.Read(bytes.NewReader(encode(t, rec)))
			if err != nil {
				t.Fatalf("written again, it cannot be read: %v", err)
			}
			one, _ := json.Marshal(rec)
			two, _ := json.Marshal(again)
			if !bytes.Equal(one, two) {
				t.Fatalf("written again, it differs:\n%s\n%s", one, two)
			}
		case errors.Is(err, result.ErrTruncated):
			if rec == nil {
				t.Fatal("truncated, but no partial record")
			}
		case errors.As(err, &syntax), errors.Is(err, result.ErrNewer), errors.Is(err, result.ErrNotRecord):
		default:
			t.Fatalf("untyped error: %v", err)
		}
	})
}

func FuzzDecodeRTT(f *testing.F) {
	h := result.NewRTT()
	for v := int64(1); v < 1e9; v *= 3 {
		_ = h.RecordValue(v)
	}
	enc, err := result.EncodeRTT(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(enc)
	f.Add(enc[:len(enc)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := result.DecodeRTT(data)
		buckets, errBuckets := result.RTTBuckets(data)
		if err != nil {
			return
		}
		if errBuckets != nil {
			t.Fatalf("one decoder takes it, the other says %v", errBuckets)
		}
		total := int64(0)
		for _, b := range buckets {
			total += b.Count
		}
		if total != h.TotalCount() {
			t.Fatalf("%d values in buckets, %d in the histogram", total, h.TotalCount())
		}
	})
}
