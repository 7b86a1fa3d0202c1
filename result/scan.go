package result

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// A long record is nearly all slices, and decoding them is nearly all of the time that
// reading takes. So the lines that [Writer] writes for slices have a parser of their own.
// Whatever else a line holds is left to encoding/json, which also says what is wrong.

// scanner parses the slice lines of a block. What it makes is valid until it is reset.
type scanner struct {
	text  []byte // the line
	pos   int    // where in the line: moving the slice would cost a write barrier each time
	names map[string]string
	// recent are names of names, each at the place that its ends and its length give it.
	recent [64]string

	slices  []Slice
	latency []Latency
	streams []Stream
	flows   []int64
}

// histograms are those of a slice, in base64. Of slices that are merged, all but the first are
// dropped, and a long record would spend a fifth of its reading on decoding what is dropped.
type histograms struct{ rtt, lateness []byte }

// maxNames bounds the names that a scanner keeps: a hostile record has others in each line.
const maxNames = 4096

func (p *scanner) reset() {
	p.slices, p.latency, p.streams, p.flows = p.slices[:0], p.latency[:0], p.streams[:0], p.flows[:0]
	if len(p.names) > maxNames {
		p.names = nil
	}
	if p.names == nil {
		p.names, p.recent = map[string]string{}, [64]string{}
	}
}

var (
	sliceBegin = []byte(`{"slice":{`)
	sliceEnd   = []byte(`}`)
)

// slice parses a line, but for the histograms, which can be decoded; false: it is not one that
// this parser knows.
func (p *scanner) slice(line []byte) (*Slice, histograms, bool) {
	var h histograms
	if !bytes.HasPrefix(line, sliceBegin) {
		return nil, h, false
	}
	p.text, p.pos = line, len(sliceBegin)-1
	p.slices = append(p.slices, Slice{})
	s := &p.slices[len(p.slices)-1]
	ok := p.object(func(key []byte) bool {
		switch string(key) {
		case "cell":
			return p.name(&s.Cell)
		case "arm":
			return p.name(&s.Arm)
		case "series":
			return p.smallInt(&s.Series)
		case "round":
			return p.smallInt(&s.Round)
		case "start":
			return p.int(&s.Start)
		case "elapsed":
			return p.int(&s.Elapsed)
		case "latency":
			return p.latencyObject(&s.Latency, &h)
		case "stream":
			return p.streamObject(&s.Stream)
		case "beside":
			return p.streamObject(&s.Background)
		case "failed":
			return p.name(&s.Failed)
		}
		return false
	})
	return s, h, ok && bytes.Equal(p.text[p.pos:], sliceEnd)
}

func (p *scanner) latencyObject(to **Latency, h *histograms) bool {
	if *to == nil {
		p.latency = append(p.latency, Latency{})
		*to = &p.latency[len(p.latency)-1]
	}
	l := *to
	return p.object(func(key []byte) bool {
		switch string(key) {
		case "requests":
			return p.int(&l.Requests)
		case "replies":
			return p.int(&l.Replies)
		case "rtt_median":
			return p.int(&l.RTTMedian)
		case "lost":
			return p.int(&l.Lost)
		case "late":
			return p.int(&l.Late)
		case "rtt_sum":
			return p.int(&l.RTTSum)
		case "head_replies":
			return p.int(&l.HeadReplies)
		case "timeout":
			return p.int(&l.Timeout)
		case "missed":
			return p.int(&l.Missed)
		case "lateness":
			return p.base64(&h.lateness)
		case "per_flow":
			return p.ints(&l.PerFlow)
		case "rtt":
			return p.base64(&h.rtt)
		}
		return false
	})
}

func (p *scanner) streamObject(to **Stream) bool {
	if *to == nil {
		p.streams = append(p.streams, Stream{})
		*to = &p.streams[len(p.streams)-1]
	}
	t := *to
	return p.object(func(key []byte) bool {
		switch string(key) {
		case "asked_messages":
			return p.int(&t.AskedMessages)
		case "sent_messages":
			return p.int(&t.SentMessages)
		case "sent_bytes":
			return p.int(&t.SentBytes)
		case "send_ns":
			return p.int(&t.SendNs)
		case "recv_messages":
			return p.int(&t.RecvMessages)
		case "recv_bytes":
			return p.int(&t.RecvBytes)
		case "rate_messages":
			return p.int(&t.RateMessages)
		case "rate_bytes":
			return p.int(&t.RateBytes)
		case "rate_ns":
			return p.int(&t.RateNs)
		case "packets":
			return p.int(&t.Packets)
		case "retransmits":
			return p.int(&t.Retransmits)
		case "per_flow":
			return p.ints(&t.PerFlow)
		}
		return false
	})
}

// skip takes one byte, if it is the next.
func (p *scanner) skip(c byte) bool {
	if p.pos >= len(p.text) || p.text[p.pos] != c {
		return false
	}
	p.pos++
	return true
}

// object parses an object without spaces, of which value parses the values.
func (p *scanner) object(value func(key []byte) bool) bool {
	if !p.skip('{') {
		return false
	}
	if p.skip('}') {
		return true
	}
	for {
		key, ok := p.plainString()
		if !ok || !p.skip(':') || !value(key) {
			return false
		}
		if p.skip('}') {
			return true
		}
		if !p.skip(',') {
			return false
		}
	}
}

// plainString parses a string that stands for itself: it has no escapes.
func (p *scanner) plainString() ([]byte, bool) {
	if !p.skip('"') {
		return nil, false
	}
	text, begin := p.text, p.pos
	for end := begin; end < len(text); { // names are short: a call would take longer
		if end+8 > len(text) {
			if text[end] == '"' {
				p.pos = end + 1
				return text[begin:end], true
			}
			end++
			continue
		}
		if at := quoteIn(binary.LittleEndian.Uint64(text[end:])); at < 8 {
			p.pos = end + at + 1
			return text[begin : end+at], true
		}
		end += 8
	}
	return nil, false
}

// quoteIn is which of eight bytes is the first quotation mark; 8: none. A byte is 0 in x where
// there is one, and the lowest bit that subtraction borrows into is that of the first such byte.
func quoteIn(eight uint64) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	x := eight ^ '"'*ones
	return bits.TrailingZeros64((x-ones)&^x&tops) / 8
}

func (p *scanner) name(to *string) bool {
	s, ok := p.plainString()
	if !ok {
		return false
	}
	recent := &p.recent[0]
	if n := len(s); n > 0 {
		recent = &p.recent[(int(s[0])^int(s[n-1])^n)%len(p.recent)]
	}
	if string(s) == *recent {
		*to = *recent
		return true
	}
	if known, ok := p.names[string(s)]; ok {
		*to, *recent = known, known
		return true
	}
	for _, c := range s {
		if c < ' ' || c == '\\' {
			return false
		}
	}
	if !utf8.Valid(s) {
		return false
	}
	*to = string(s)
	p.names[*to] = *to
	return true
}

func (p *scanner) int(to *int64) bool {
	text, i, negative := p.text, p.pos, false
	if i < len(text) && text[i] == '-' {
		i, negative = i+1, true
	}
	const mostDigits = 18 // these always fit
	begin, n := i, int64(0)
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		n = 10*n + int64(text[i]-'0')
		i++
	}
	digits := i - begin
	if digits == 0 || digits > mostDigits || digits > 1 && text[begin] == '0' {
		return false
	}
	if negative {
		n = -n
	}
	*to, p.pos = n, i
	return true // what must not follow a number is not a comma or an end either
}

func (p *scanner) smallInt(to *int) bool {
	var n int64
	if !p.int(&n) || int64(int(n)) != n {
		return false
	}
	*to = int(n)
	return true
}

func (p *scanner) ints(to *[]int64) bool {
	if !p.skip('[') {
		return false
	}
	begin := len(p.flows)
	if p.skip(']') {
		*to = []int64{}
		return true
	}
	for {
		p.flows = append(p.flows, 0)
		if !p.int(&p.flows[len(p.flows)-1]) {
			return false
		}
		if p.skip(']') {
			*to = p.flows[begin:len(p.flows):len(p.flows)]
			return true
		}
		if !p.skip(',') {
			return false
		}
	}
}

// notBase64 is 0 for the characters of base64.
var notBase64 = func() (table [256]byte) {
	for i := range table {
		table[i] = 1
	}
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		table[c] = 0
	}
	return table
}()

// base64 takes a string of base64 that can be decoded, and is not too long.
func (p *scanner) base64(to *[]byte) bool {
	if !p.skip('"') {
		return false
	}
	rest := p.text[p.pos:]
	for len(rest) >= 8 && notBase64[rest[0]]|notBase64[rest[1]]|notBase64[rest[2]]|notBase64[rest[3]]|
		notBase64[rest[4]]|notBase64[rest[5]]|notBase64[rest[6]]|notBase64[rest[7]] == 0 {
		rest = rest[8:]
	}
	for len(rest) > 0 && notBase64[rest[0]] == 0 {
		rest = rest[1:]
	}
	for n := 0; n < 2 && len(rest) > 0 && rest[0] == '='; n++ {
		rest = rest[1:]
	}
	begin, end := p.pos, len(p.text)-len(rest)
	if p.pos = end; !p.skip('"') || (end-begin)%4 != 0 || base64.StdEncoding.DecodedLen(end-begin) > maxRTT {
		return false
	}
	*to = p.text[begin:end]
	return true
}

// decode decodes the histograms to what a slice has of latencies. Rtt and lateness say which.
func (h histograms) decode(l *Latency, rtt, lateness bool) {
	if rtt && h.rtt != nil {
		l.RTT = decodeBase64(h.rtt)
	}
	if lateness && h.lateness != nil {
		l.Lateness = decodeBase64(h.lateness)
	}
}

// decodeBase64 decodes what the scanner has seen to be base64.
func decodeBase64(text []byte) []byte {
	out, err := base64.StdEncoding.AppendDecode([]byte{}, text)
	if err != nil {
		panic(err)
	}
	return out
}
