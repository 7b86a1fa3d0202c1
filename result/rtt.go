package result

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Range of an RTT histogram: 1 ns to 100 s at three significant digits, so a
// bucket is never wider than 0.1 % of its value. That is 28 672 counters, 224
// KiB in memory and some hundred bytes once compressed. A value above the
// range is counted at its end.
const (
	MinRTT    int64 = 1
	MaxRTT    int64 = 100_000_000_000
	RTTDigits       = 3
)

// NewRTT makes an empty histogram for RTTs in ns.
func NewRTT() *hdrhistogram.Histogram { return hdrhistogram.New(MinRTT, MaxRTT, RTTDigits) }

// EncodeRTT gives the V2 compressed encoding of h in binary form. JSON turns
// it to base64, which makes the text in the record the very string that other
// HdrHistogram tools read. It is slow (compression): not for a timed loop.
func EncodeRTT(h *hdrhistogram.Histogram) ([]byte, error) {
	text, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return nil, fmt.Errorf("encode RTT histogram: %w", err)
	}
	out, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return nil, fmt.Errorf("encode RTT histogram: %w", err)
	}
	return out, nil
}

// DecodeRTT is the inverse of [EncodeRTT]. It refuses a histogram of a range
// or precision beyond the one above before memory is given to it.
func DecodeRTT(enc []byte) (*hdrhistogram.Histogram, error) {
	return decode(enc, hdrhistogram.Decode)
}

// Bucket is one occupied counter of a histogram: Count values from Value to at
// most 0.1 % above it.
type Bucket struct{ Value, Count int64 }

// RTTBuckets gives the occupied buckets of an encoded histogram in ascending
// order. It is much cheaper than [DecodeRTT], which fills every counter; a
// report reads ten thousands of them.
func RTTBuckets(enc []byte) ([]Bucket, error) {
	if out, ok := ownBuckets(enc); ok {
		return out, nil
	}
	h, err := decode(enc, hdrhistogram.DecodePacked)
	if err != nil {
		return nil, err
	}
	out := make([]Bucket, 0, h.Populated())
	h.ForEachBucket(func(value, count int64) bool {
		out = append(out, Bucket{value, count})
		return true
	})
	return out, nil
}

// Counters of a histogram of [NewRTT]: the first 2,048 count single values, and each further
// 1,024 twice as many values as those before.
const (
	rttHalf     = 1 << rttHalfBits
	rttHalfBits = 10
	rttCounters = 28 * rttHalf
)

// ownBuckets is RTTBuckets of what [EncodeRTT] makes of a histogram of [NewRTT]. The library
// makes a new decompressor for each, of 44 KB, and has to be asked twice. False: it is another
// kind of histogram, or damaged, and the library says what is wrong.
func ownBuckets(enc []byte) ([]Bucket, bool) {
	const header = 40
	if len(enc) < 8 || len(enc) > maxRTT || int32(binary.BigEndian.Uint32(enc))&^0xf0 != hdrhistogram.V2CompressedEncodingCookieBase ||
		uint64(binary.BigEndian.Uint32(enc[4:])) != uint64(len(enc)-8) {
		return nil, false
	}
	z, err := inflater(enc[8:])
	if err != nil {
		return nil, false
	}
	defer inflaters.Put(z)
	var head [header]byte
	if _, err := io.ReadFull(z, head[:]); err != nil {
		return nil, false
	}
	length := binary.BigEndian.Uint32(head[4:])
	if int32(binary.BigEndian.Uint32(head[:]))&^0xf0 != hdrhistogram.V2EncodingCookieBase || length > rttCounters*binary.MaxVarintLen64 ||
		binary.BigEndian.Uint32(head[12:]) != RTTDigits || int64(binary.BigEndian.Uint64(head[16:])) != MinRTT || int64(binary.BigEndian.Uint64(head[24:])) != MaxRTT {
		return nil, false
	}
	counts := make([]byte, length+1)
	if n, err := io.ReadFull(z, counts); n != int(length) || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false // the end comes with the checksum
	}
	counts = counts[:length]
	out := make([]Bucket, 0, len(counts)) // each takes a byte or more
	at := int64(0)
	for len(counts) > 0 {
		n, size := binary.Varint(counts)
		if size <= 0 || size > 8 { // the format has one of 9 bytes that Go's has not
			return nil, false
		}
		counts = counts[size:]
		if n < 0 { // so many empty ones
			if at -= n; at > rttCounters {
				return nil, false
			}
			continue
		}
		if at >= rttCounters {
			return nil, false
		}
		if n > 0 {
			out = append(out, Bucket{rttValue(at), n})
		}
		at++
	}
	return out, true
}

// rttValue is the least value of a counter.
func rttValue(at int64) int64 {
	if at < 2*rttHalf {
		return at
	}
	return (at&(rttHalf-1) + rttHalf) << (at>>rttHalfBits - 1)
}

func decode[H any](enc []byte, from func([]byte) (H, error)) (h H, err error) {
	if err := checkRTT(enc); err != nil {
		return h, fmt.Errorf("decode RTT histogram: %w", err)
	}
	text := make([]byte, base64.StdEncoding.EncodedLen(len(enc)))
	base64.StdEncoding.Encode(text, enc)
	h, err = from(text)
	if err != nil {
		return h, fmt.Errorf("decode RTT histogram: %w", err)
	}
	return h, nil
}

// inflaters are zlib readers that are used again: a new one takes 40 KB, and a report reads
// thousands of histograms.
var inflaters sync.Pool

// inflater takes one of them, or makes one, for compressed bytes.
func inflater(compressed []byte) (io.ReadCloser, error) {
	in := bytes.NewReader(compressed)
	z, _ := inflaters.Get().(io.ReadCloser)
	if z == nil {
		return zlib.NewReader(in)
	}
	if err := z.(zlib.Resetter).Reset(in, nil); err != nil {
		inflaters.Put(z)
		return nil, err
	}
	return z, nil
}

// checkRTT looks at the 40 bytes of the compressed header: digits at offset
// 12, lowest and highest value at 16 and 24, big-endian.
func checkRTT(enc []byte) error {
	if len(enc) < 8 || len(enc) > maxRTT {
		return fmt.Errorf("%d bytes", len(enc))
	}
	z, err := inflater(enc[8:])
	if err != nil {
		return err
	}
	defer inflaters.Put(z)
	var head [40]byte
	if _, err := io.ReadFull(z, head[:]); err != nil {
		return err
	}
	digits := int32(binary.BigEndian.Uint32(head[12:]))
	lowest := int64(binary.BigEndian.Uint64(head[16:]))
	highest := int64(binary.BigEndian.Uint64(head[24:]))
	if digits < 0 || digits > RTTDigits || lowest < MinRTT || highest > MaxRTT {
		return fmt.Errorf("range %d..%d with %d digits", lowest, highest, digits)
	}
	return nil
}
