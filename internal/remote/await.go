package remote

import (
	"bufio"
	"io"
)

// Await reads a stream until the agent on its other side is ready to be spoken to.
func Await(stream io.Reader) error {
	_, err := readWord(bufio.NewReaderSize(stream, 1), agentWord) // no byte behind the line is ours
	return err
}
