package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

// A stream begins with a header: one line of JSON. The first stream of a channel is a greeting.
// Every other stream is part of a command: one for requests and answers, as lines of JSON, and one
// for each of its standard streams, as raw bytes. No stream can block another.

// part is the kind of a stream.
type part string

const (
	greeting part = "greeting"
	control  part = "control"
	stdin    part = "stdin"
	stdout   part = "stdout"
	stderr   part = "stderr"
)

// header is the first line of a stream.
type header struct {
	Part    part
	Command string `json:",omitempty"` // joins the streams of one command
}

// start is the first request on a control stream.
type start struct {
	Args, Env []string
	Dir       string
	TTY       *Size
	Parts     []part // the standard streams in use
	Joined    bool   // stderr goes to stdout
}

// request is one of those that follow.
type request struct {
	Signal int   `json:",omitempty"`
	Resize *Size `json:",omitempty"`
}

// answer is the only answer on a control stream.
type answer struct {
	Exit   int
	Failed string `json:",omitempty"` // why the command could not be started
}

// Hello is the guest's greeting.
type Hello struct {
	Release string // kernel release
	Clock   string // clock source
	Uptime  float64
}

// stream is a stream whose header was read.
type stream struct {
	net.Conn
	from *bufio.Reader
}

func (s *stream) Read(b []byte) (int, error) { return s.from.Read(b) }

// maxLine is the maximum length of a line of JSON, bytes; an environment can be long.
const maxLine = 4 << 20

// readLine reads one line of JSON.
func readLine(r *bufio.Reader, into any) error {
	var line []byte
	for {
		chunk, err := r.ReadSlice('\n')
		line = append(line, chunk...)
		if err == nil {
			break
		}
		if err != bufio.ErrBufferFull {
			if err == io.EOF && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if len(line) > maxLine {
			return fmt.Errorf("read line: longer than %d bytes", maxLine)
		}
	}
	return json.Unmarshal(line, into)
}

// writeLine writes one line of JSON.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
