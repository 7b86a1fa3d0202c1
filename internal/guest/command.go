package guest

import (
	"context"
	"io"
	"net"
)

// Command is a command to run in a guest, as root.
type Command struct {
	Args []string // Args[0] without a slash is looked up in the PATH of Env
	// Env is the whole environment, as KEY=value. A default PATH is added if it has none.
	Env []string
	Dir string // empty: /
	// Stdin is read until the command ends. A reader that blocks keeps its goroutine until it
	// returns. nil means empty.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil: discard
	// TTY gives the command a terminal of this size. All output then goes to Stdout.
	TTY *Size
	// Resize delivers new sizes of that terminal; nil means that the size never changes.
	Resize <-chan Size
}

// Size is the size of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// Dialer opens another stream to the guest.
type Dialer func(context.Context) (net.Conn, error)
