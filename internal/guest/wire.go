package guest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
)

// A stream begins with one line of JSON, its header. The first stream of a
// channel is a greeting. Each of the others is a part of a command: one for
// requests and answers, on which lines of JSON follow, and one for each of its
// standard streams, whose bytes follow. None can hold up another.

// part says what a stream is.
type part string

const (
	greeting part = "greeting"
	control  part = "control"
	stdin    part = "stdin"
	stdout   part = "stdout"
	stderr   part = "stderr"
)

// header is the line that a stream begins with.
type header struct {
	Part    part
	Command string `json:",omitempty"` // joins the streams of one command
}

// start is the first request on a control stream.
type start struct {
	Args, Env []string
	Dir       string
	TTY       *Size
	Parts     []part // the standard streams that there are
	Joined    bool   // errors go where output does
}

// request is one of those that follow.
type request struct {
	Signal int   `json:",omitempty"`
	Resize *Size `json:",omitempty"`
}

// answer is the only one on a control stream.
type answer struct {
	Exit   int
	Failed string `json:",omitempty"` // the command could not be started
}

// Hello is what a guest tells of itself.
type Hello struct {
	Release string // of its kernel
	Clock   string // the clock source
	Uptime  float64
}

// stream is one whose header was read.
type stream struct {
	net.Conn
	from *bufio.Reader
}

func (s *stream) Read(b []byte) (int, error) { return s.from.Read(b) }

// maxLine bounds a line of JSON, bytes: an environment can be long.
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
