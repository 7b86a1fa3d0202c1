package remote

import "io"

// Await reads a stream until the agent on its other side is ready to be spoken to.
func Await(stream io.Reader) error {
	_, err := readWord(stream, agentWord)
	return err
}
