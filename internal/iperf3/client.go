package iperf3

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Client is what to ask a server for.
type Client struct {
	Server  string // HOST:PORT
	UDP     bool
	Reverse bool          // the server sends
	Streams int           // at a time; 0: one
	Length  int           // bytes of a message; 0: 128 KiB, or a datagram of 1448 bytes
	Rate    float64       // bit/s of all streams together; 0: as fast as it goes
	Time    time.Duration // whole seconds
	Timeout time.Duration // for a step of the server; 0: ten seconds

	dial func(ctx context.Context, network, address string) (net.Conn, error) // nil: over the network
}

// TestResult is what a test came to.
type TestResult struct {
	Streams     int     `json:"streams"`
	Seconds     float64 `json:"seconds"` // at the receiver
	Sent        float64 `json:"sent_bytes"`
	Received    float64 `json:"received_bytes"`
	BitsPerSec  float64 `json:"received_bits_per_second"`
	Retransmits float64 `json:"retransmits"` // -1: the sender does not tell
	// Of datagrams: how many were sent, how many the receiver missed, and their jitter.
	Packets float64 `json:"packets,omitempty"`
	Lost    float64 `json:"lost_packets,omitempty"`
	Jitter  float64 `json:"jitter_seconds,omitempty"` // mean over the streams
}

// leastSeconds is the shortest time that a receiver is believed to have received for.
const leastSeconds = 1e-3

// newTestResult puts both ends together. sent tells that own are the sender's.
func newTestResult(p *params, own, peer results, sent bool) TestResult {
	sender, receiver := own, peer
	if !sent {
		sender, receiver = peer, own
	}
	r := TestResult{Streams: len(receiver.Streams), Retransmits: -1}
	for _, s := range sender.Streams {
		r.Sent += s.Bytes
		if !p.UDP && s.Retransmits >= 0 && s.Retransmits < 1<<53 {
			r.Retransmits = max(0, r.Retransmits) + s.Retransmits
		}
		if p.UDP {
			r.Packets += max(0, s.Packets-s.OmittedPackets)
		}
	}
	for _, s := range receiver.Streams {
		r.Received += s.Bytes
		r.Seconds = max(r.Seconds, s.End-s.Start)
		if p.UDP {
			r.Lost += max(0, s.Errors-s.OmittedErrors)
			r.Jitter += s.Jitter / float64(len(receiver.Streams))
		}
	}
	if r.Seconds < leastSeconds {
		r.Seconds = p.Time
	}
	if r.Seconds > 0 {
		r.BitsPerSec = 8 * r.Received / r.Seconds
	}
	return r
}

func (c Client) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return 10 * time.Second
}

func (c Client) params() params {
	streams := max(1, c.Streams)
	return params{
		TCP: !c.UDP, UDP: c.UDP, Time: c.Time.Seconds(), Parallel: float64(streams), Reverse: c.Reverse, Length: float64(c.Length),
		Bandwidth: float64(int64(c.Rate / float64(streams))), PacingTimer: 1000, Counters64: 1, Version: "3.12",
	}
}

// Check tells what of the client's numbers no test can have.
func (c Client) Check() error {
	p := c.params()
	return p.check()
}

// Run makes one test. The error says what the server told, or what failed.
func (c Client) Run(ctx context.Context) (TestResult, error) {
	t := clientTest{Client: c, cookie: newCookie()}
	t.streams.params = c.params()
	if err := t.streams.params.check(); err != nil {
		return TestResult{}, err
	}
	if t.dial == nil {
		t.dial = (&net.Dialer{Timeout: c.timeout()}).DialContext
	}
	conn, err := t.dial(ctx, "tcp", c.Server)
	if err != nil {
		return TestResult{}, err
	}
	defer conn.Close()
	defer t.streams.close()
	t.control = conn
	defer context.AfterFunc(ctx, func() {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_ = writeState(conn, clientTerminate)
		_ = conn.SetReadDeadline(time.Now())
	})()
	t.extendDeadline()
	if _, err := conn.Write(t.cookie[:]); err != nil {
		return TestResult{}, err
	}
	for {
		s, err := readState(conn)
		if err == nil {
			err = t.step(ctx, s)
		}
		switch {
		case errors.Is(err, errDone):
			return newTestResult(&t.streams.params, t.ownResults, t.serverResults, !c.Reverse), nil
		case ctx.Err() != nil:
			return TestResult{}, context.Cause(ctx)
		case errors.Is(err, io.EOF):
			return TestResult{}, errors.New("the server closed the connection")
		case err != nil:
			return TestResult{}, err
		}
	}
}

// errDone ends the loop of a test that went well.
var errDone = errors.New("the test is over")

// clientTest is a test that runs.
type clientTest struct {
	Client
	cookie                    [cookieSize]byte
	control                   net.Conn
	streams                   streams
	ownResults, serverResults results
	stateCount                int // states that the server went through
}

func (t *clientTest) extendDeadline() { _ = t.control.SetDeadline(time.Now().Add(t.timeout())) }

// step does what a state of the server asks for.
func (t *clientTest) step(ctx context.Context, s state) error {
	// A server that goes round and round is no iperf3.
	if t.stateCount++; t.stateCount > 16 {
		return errors.New("the server does not come to an end")
	}
	t.extendDeadline()
	switch s {
	case paramExchange:
		return writeJSON(t.control, t.streams.params)
	case createStreams:
		return t.open(ctx)
	case testStart:
		return nil
	case testRunning:
		return t.measure(ctx)
	case exchangeResults:
		t.ownResults = t.streams.results()
		if err := writeJSON(t.control, t.ownResults); err != nil {
			return err
		}
		if err := readJSON(t.control, mostResults, &t.serverResults); err != nil {
			return fmt.Errorf("read the server's results: %w", err)
		}
		return t.serverResults.check(len(t.streams.all))
	case displayResults:
		if len(t.serverResults.Streams) == 0 {
			return errors.New("the server ended the test without results")
		}
		_ = writeState(t.control, iperfDone)
		return errDone
	case accessDenied:
		return errors.New("the server is busy with another test")
	case serverTerminate:
		return errors.New("the server ended the test")
	case serverError:
		var numbers [8]byte
		if _, err := io.ReadFull(t.control, numbers[:]); err != nil {
			return err
		}
		return fmt.Errorf("the server refused the test: its error %d", int32(binary.BigEndian.Uint32(numbers[:])))
	}
	return fmt.Errorf("the server is in the unknown state %d", s)
}

// open opens the streams.
func (t *clientTest) open(ctx context.Context) error {
	if len(t.streams.all) > 0 {
		return errors.New("the server asks for streams twice")
	}
	network := "tcp"
	if t.UDP {
		network = "udp"
	}
	for range int(t.streams.params.Parallel) {
		conn, err := t.dial(ctx, network, t.control.RemoteAddr().String())
		if err != nil {
			return fmt.Errorf("open a stream: %w", err)
		}
		t.streams.add(conn, !t.Reverse)
		_ = conn.SetDeadline(time.Now().Add(t.timeout()))
		greet := t.greetTCP
		if t.UDP {
			greet = t.greetUDP
		}
		if err := greet(conn); err != nil {
			return fmt.Errorf("open a stream: %w", err)
		}
		_ = conn.SetDeadline(time.Time{})
	}
	t.extendDeadline()
	return nil
}

func (t *clientTest) greetTCP(conn net.Conn) error {
	_, err := conn.Write(t.cookie[:])
	return err
}

// greetUDP asks for a stream and awaits the answer. In a test in reverse data may come
// before it.
func (t *clientTest) greetUDP(conn net.Conn) error {
	if _, err := conn.Write(udpHello); err != nil {
		return err
	}
	buf := make([]byte, maxUDP)
	for range 1000 {
		n, err := conn.Read(buf)
		if err != nil {
			return err
		}
		if got := string(buf[:n]); got == string(udpReply) || got == string(udpLegacyReply) {
			return nil
		}
	}
	return errors.New("the server does not answer with the word of iperf3")
}

// measure lets the streams run for their time.
func (t *clientTest) measure(ctx context.Context) error {
	if len(t.streams.all) == 0 || !t.streams.start.IsZero() {
		return errors.New("the server starts a test that cannot begin")
	}
	_ = t.control.SetDeadline(time.Now().Add(t.Time + t.timeout()))
	t.streams.begin()
	broken := make(chan struct{})
	go func() { // until then no state is due
		t.streams.wait.Wait()
		close(broken)
	}()
	timer := time.NewTimer(t.Time)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-broken: // the server may have said why
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	t.streams.end()
	t.extendDeadline()
	return writeState(t.control, testEnd)
}
