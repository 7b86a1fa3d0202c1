package guest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"
)

// TestApart dispatches each stream to its listener, unchanged, and closes both listeners with the
// original one.
func TestApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agents, commands := splitStreams(l)
	heard := make(chan string)
	hear := func(who string, l net.Listener) {
		for {
			conn, err := l.Accept()
			if err != nil {
				heard <- fmt.Sprint(who, " ended ", errors.Is(err, net.ErrClosed))
				return
			}
			text, _ := io.ReadAll(conn)
			conn.Close()
			heard <- who + " " + string(text)
		}
	}
	go hear("agent", agents)
	go hear("commands", commands)
	next := func() string {
		select {
		case text := <-heard:
			return text
		case <-time.After(20 * time.Second):
			t.Fatal("nothing is heard")
			return ""
		}
	}
	for said, want := range map[string]string{
		"PRI * HTTP/2.0\r\n\r\n":   "agent PRI * HTTP/2.0\r\n\r\n",
		"{\"part\":\"control\"}\n": "commands {\"part\":\"control\"}\n",
	} {
		// A silent stream does not block others.
		silent, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, said)
		conn.Close()
		if got := next(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		silent.Close()
	}
	agents.Close()
	ends := map[string]bool{next(): true, next(): true}
	if !ends["agent ended true"] || !ends["commands ended true"] {
		t.Errorf("%v", ends)
	}
}
