// Package iperf3 speaks iperf3's protocol, as its server and as its client: TCP and UDP,
// several streams, either direction. So an iperf3 that somebody has can check Venturi, and
// Venturi an iperf3.
//
// One TCP connection controls a test. Single bytes tell its states; parameters and results
// are JSON behind their length. Streams go to the same port, each TCP one with the cookie
// of its test. Whatever a peer sends is bounded in size and in time.
package iperf3

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Port is where an iperf3 server listens by default.
const Port = 5201

// state is where a test stands. The values are the protocol's.
type state int8

const (
	testStart       state = 1
	testRunning     state = 2
	testEnd         state = 4
	paramExchange   state = 9
	createStreams   state = 10
	serverTerminate state = 11
	clientTerminate state = 12
	exchangeResults state = 13
	displayResults  state = 14
	iperfDone       state = 16
	accessDenied    state = -1
	serverError     state = -2
)

// Error numbers that a stock client has texts for.
const (
	errorParameters    = 114 // "unable to receive parameters from client"
	errorUnimplemented = 13  // "an option you are trying to set is not implemented yet"
)

const (
	cookieSize = 37 // 36 characters and a zero
	// mostParams and mostResults bound what is read of a peer. Results of 128 streams have
	// 30 KB; a stock server adds its own report when it is asked to.
	mostParams  = 8 << 10
	mostResults = 1 << 20

	// MaxStreams is what iperf3 itself takes.
	MaxStreams = 128
	maxBlock   = 1 << 20
	maxUDP     = 65507
	minUDP     = 16 // the header of a datagram
	maxSeconds = 86400
)

// newCookie names a test, as iperf3 does: letters and digits that look unlike.
func newCookie() (c [cookieSize]byte) {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	_, _ = rand.Read(c[:]) // it never fails
	for i := range c {
		c[i] = letters[int(c[i])%len(letters)]
	}
	c[cookieSize-1] = 0
	return c
}

func writeState(w io.Writer, s state) error {
	_, err := w.Write([]byte{byte(s)})
	return err
}

func readState(r io.Reader) (state, error) {
	var b [1]byte
	_, err := io.ReadFull(r, b[:])
	return state(int8(b[0])), err
}

// writeJSON sends a value behind its length.
func writeJSON(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...))
	return err
}

// readJSON reads a value behind its length, which may be most at most.
func readJSON(r io.Reader, most int, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n == 0 || n > uint32(most) {
		return fmt.Errorf("a message of %d bytes, where at most %d make sense", n, most)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n))) // it grows with what comes, not with what is promised
	switch {
	case err != nil:
		return err
	case len(text) < int(n):
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(text, v)
}

// params are what a client asks for. Numbers are floats, because iperf3 writes some of
// them so.
type params struct {
	TCP           bool    `json:"tcp,omitempty"`
	UDP           bool    `json:"udp,omitempty"`
	SCTP          bool    `json:"sctp,omitempty"`
	Omit          float64 `json:"omit"`
	Time          float64 `json:"time"`
	Num           float64 `json:"num"`
	BlockCount    float64 `json:"blockcount"`
	NoDelay       bool    `json:"nodelay,omitempty"`
	Parallel      float64 `json:"parallel"`
	Reverse       bool    `json:"reverse,omitempty"`
	Bidirectional bool    `json:"bidirectional,omitempty"`
	Length        float64 `json:"len"`
	Bandwidth     float64 `json:"bandwidth"` // bit/s of each stream; 0: no limit
	PacingTimer   float64 `json:"pacing_timer"`
	Counters64    float64 `json:"udp_counters_64bit,omitempty"`
	AuthToken     string  `json:"authtoken,omitempty"`
	Version       string  `json:"client_version,omitempty"`
}

// refusal is why a server does not run a test, with iperf3's number of the error.
type refusal struct {
	number int32
	reason string
}

func (r *refusal) Error() string { return r.reason }

// check fills in what a client may leave out, and refuses what is not done here.
func (p *params) check() error {
	whole := func(v, least, most float64) bool { return v >= least && v <= most && v == math.Trunc(v) }
	if p.Length == 0 && p.UDP {
		p.Length = defaultDatagram
	}
	if p.Length == 0 {
		p.Length = defaultBlock
	}
	if p.Parallel == 0 {
		p.Parallel = 1
	}
	least, most := 1.0, float64(maxBlock)
	if p.UDP {
		least, most = minUDP, maxUDP
	}
	switch {
	case p.SCTP || p.TCP == p.UDP:
		return &refusal{errorUnimplemented, "only TCP and UDP are served"}
	case p.Bidirectional:
		return &refusal{errorUnimplemented, "both directions at a time are not served: run the client once with -R and once without"}
	case p.AuthToken != "":
		return &refusal{errorUnimplemented, "clients are not authenticated here"}
	case !whole(p.Parallel, 1, MaxStreams), !whole(p.Time, 0, maxSeconds), !whole(p.Omit, 0, 600), !whole(p.Length, least, most),
		!(p.Bandwidth >= 0 && p.Bandwidth <= 1e15), !(p.Num >= 0 && p.Num <= 1e18), !(p.BlockCount >= 0 && p.BlockCount <= 1e18):
		return &refusal{errorParameters, "a parameter is out of range"}
	}
	return nil
}

const (
	defaultBlock    = 128 << 10
	defaultDatagram = 1448
)

// results are what one end tells the other when a test is over.
type results struct {
	CPUTotal       float64         `json:"cpu_util_total"`
	CPUUser        float64         `json:"cpu_util_user"`
	CPUSystem      float64         `json:"cpu_util_system"`
	HasRetransmits float64         `json:"sender_has_retransmits"`
	Streams        []streamResults `json:"streams"`
}

type streamResults struct {
	ID             float64 `json:"id"`
	Bytes          float64 `json:"bytes"`
	Retransmits    float64 `json:"retransmits"` // -1: not known; old versions print that as 2^64
	Jitter         float64 `json:"jitter"`      // seconds
	Errors         float64 `json:"errors"`      // datagrams that are missing
	OmittedErrors  float64 `json:"omitted_errors"`
	Packets        float64 `json:"packets"`
	OmittedPackets float64 `json:"omitted_packets"`
	Start          float64 `json:"start_time"`
	End            float64 `json:"end_time"`
}

// check refuses results that are not of so many streams, or no numbers of a test.
func (r *results) check(streams int) error {
	if len(r.Streams) != streams {
		return fmt.Errorf("results of %d streams, not of %d", len(r.Streams), streams)
	}
	for _, s := range r.Streams {
		for _, v := range []float64{s.Bytes, s.Errors, s.OmittedErrors, s.Packets, s.OmittedPackets, s.Jitter, s.End - s.Start} {
			if !(v >= 0 && v <= 1e18) {
				return fmt.Errorf("stream %v tells of %v", s.ID, v)
			}
		}
	}
	return nil
}

// streamID is iperf3's number of its i-th stream, from 0: 1, 3, 4, 5 and so on.
func streamID(i int) int {
	if i == 0 {
		return 1
	}
	return i + 2
}
