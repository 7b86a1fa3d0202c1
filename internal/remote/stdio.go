package remote

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// Stdio is the other side of a stream: a listener that has one connection, of standard input
// and output, and ends with it. folder, if not empty, is where the script has put this
// program: it is removed first.
func Stdio(in io.Reader, out io.Writer, folder string) (net.Listener, error) {
	if folder != "" {
		if err := os.RemoveAll(folder); err != nil {
			return nil, fmt.Errorf("remove the copy of this program: %w", err)
		}
	}
	if _, err := fmt.Fprintln(out, agentWord, "1"); err != nil {
		return nil, err
	}
	// A read of standard input lasts until there is some, whoever closes it. One of a pipe does not.
	read, write := io.Pipe()
	go func() {
		_, err := io.Copy(write, in)
		_ = write.CloseWithError(err)
	}()
	l := &oneConn{conn: make(chan net.Conn, 1), closed: make(chan struct{})}
	l.conn <- &stdioConn{in: read, out: out, closed: l.Close}
	return l, nil
}

// oneConn is a listener with one connection.
type oneConn struct {
	conn      chan net.Conn
	closeOnce sync.Once
	closed    chan struct{}
}

// Accept gives the connection once; after that it waits for its end.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error {
	l.closeOnce.Do(func() { close(l.closed) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return stdioAddr{} }

type stdioAddr struct{}

func (stdioAddr) Network() string { return "stdio" }
func (stdioAddr) String() string  { return "stdio" }

// stdioConn is a connection without deadlines.
type stdioConn struct {
	in     io.Reader
	out    io.Writer
	closed func() error
}

func (s *stdioConn) Read(p []byte) (int, error) {
	n, err := s.in.Read(p)
	if err != nil && n == 0 {
		_ = s.closed()
		if err != io.EOF {
			err = io.EOF
		}
	}
	return n, err
}

func (s *stdioConn) Write(p []byte) (int, error) { return s.out.Write(p) }

func (s *stdioConn) Close() error {
	_ = s.closed()
	for _, end := range []any{s.out, s.in} {
		if c, ok := end.(io.Closer); ok {
			_ = c.Close() // the other side is told by the end of the process, if not by this
		}
	}
	return nil
}

func (s *stdioConn) LocalAddr() net.Addr                { return stdioAddr{} }
func (s *stdioConn) RemoteAddr() net.Addr               { return stdioAddr{} }
func (s *stdioConn) SetDeadline(t time.Time) error      { return nil }
func (s *stdioConn) SetReadDeadline(t time.Time) error  { return nil }
func (s *stdioConn) SetWriteDeadline(t time.Time) error { return nil }
