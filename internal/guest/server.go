package guest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/agent"
)

// outerWriteLimit limits how long the server waits for the client to read.
const outerWriteLimit = time.Minute

// serve answers on the channel, given by its descriptor, until the channel is closed.
func serve(channel int, machine string) error {
	// Non-blocking before it is a file, so that closing it ends a pending read.
	if err := unix.SetNonblock(channel, true); err != nil {
		return fmt.Errorf("use the channel: %w", err)
	}
	session, err := Session(os.NewFile(uintptr(channel), Port), true, outerWriteLimit)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := greet(session); err != nil {
		return err
	}
	if machine == "" {
		Commands(session)
		return nil
	}
	agents, others := splitStreams(session)
	go Commands(others)
	return agent.Serve(context.Background(), agents, agent.Options{Machine: machine})
}

// greet sends the greeting on the first stream.
func greet(l net.Listener) error {
	conn, err := l.Accept()
	if err != nil {
		return fmt.Errorf("wait for a greeting: %w", err)
	}
	defer conn.Close()
	var h header
	if err := readLine(bufio.NewReader(conn), &h); err != nil || h.Part != greeting {
		return fmt.Errorf("read a greeting: it is a %q (%w)", h.Part, err)
	}
	return writeLine(conn, Hello{
		Release: line("/proc/sys/kernel/osrelease"),
		Clock:   line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Uptime:  uptime(),
	})
}

func line(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// uptime returns the seconds since the kernel booted.
func uptime() float64 {
	words := strings.Fields(line("/proc/uptime"))
	if len(words) == 0 {
		return 0
	}
	seconds, _ := strconv.ParseFloat(words[0], 64)
	return seconds
}

// commands joins the streams of commands.
type commands struct {
	mu      sync.Mutex
	waiting map[header]chan *stream
}

// joinLimit limits how long a stream of a command waits for the others.
const joinLimit = 30 * time.Second

// Commands runs the commands that are requested on a listener's streams, until the listener is
// closed.
func Commands(l net.Listener) {
	c := &commands{waiting: map[header]chan *stream{}}
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go c.handle(&stream{Conn: conn, from: bufio.NewReader(conn)})
	}
}

func (c *commands) handle(s *stream) {
	var h header
	if err := readLine(s.from, &h); err != nil {
		s.Close()
		return
	}
	if h.Part == control {
		c.control(h.Command, s)
		return
	}
	select {
	case c.place(h) <- s:
	case <-time.After(joinLimit):
		s.Close()
	}
}

// place is where a stream is handed over.
func (c *commands) place(h header) chan *stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[h] == nil {
		c.waiting[h] = make(chan *stream)
	}
	return c.waiting[h]
}

// collect waits for the standard streams of a command.
func (c *commands) collect(command string, parts []part) (map[part]*stream, error) {
	streams := map[part]*stream{}
	for _, p := range parts {
		h := header{p, command}
		select {
		case streams[p] = <-c.place(h):
		case <-time.After(joinLimit):
			for _, s := range streams {
				s.Close()
			}
			return nil, fmt.Errorf("its stream %s did not arrive", p)
		}
		c.mu.Lock()
		delete(c.waiting, h)
		c.mu.Unlock()
	}
	return streams, nil
}

// control runs one command.
func (c *commands) control(command string, s *stream) {
	defer s.Close()
	var want start
	if err := readLine(s.from, &want); err != nil {
		return
	}
	streams, err := c.collect(command, want.Parts)
	if err != nil {
		_ = writeLine(s, answer{Failed: err.Error()})
		return
	}
	p, err := launch(want, streams)
	if err != nil {
		for _, std := range streams {
			std.Close()
		}
		_ = writeLine(s, answer{Failed: err.Error()})
		return
	}
	go p.obey(s)
	// The client may have gone.
	_ = writeLine(s, answer{Exit: p.wait()})
}
