package guest

import (
	"bufio"
	"net"
)

// preface begins each connection of an agent's client, which is HTTP/2, and no stream of a command.
const preface = "PRI"

// splitStreams separates the streams of a listener into those for an agent and those of commands.
// Closing the agent's listener closes the original one.
func splitStreams(l net.Listener) (agent, commands net.Listener) {
	ended := make(chan struct{})
	a := &branch{Listener: l, conns: make(chan net.Conn), ended: ended}
	c := &branch{Listener: l, conns: make(chan net.Conn), ended: ended}
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go sort(conn, a, c)
		}
	}()
	return a, c
}

// sort dispatches a stream by its first bytes.
func sort(conn net.Conn, agent, commands *branch) {
	s := &stream{Conn: conn, from: bufio.NewReader(conn)}
	to := commands
	if first, err := s.from.Peek(len(preface)); err != nil {
		conn.Close() // the stream ended before its header
		return
	} else if string(first) == preface {
		to = agent
	}
	select {
	case to.conns <- s:
	case <-to.ended:
		conn.Close()
	}
}

// branch is a listener that receives some of another listener's streams.
type branch struct {
	net.Listener
	conns chan net.Conn
	ended chan struct{}
}

// Accept implements [net.Listener].
func (b *branch) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.ended:
		return nil, net.ErrClosed
	}
}
