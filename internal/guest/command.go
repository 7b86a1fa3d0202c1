package guest

import (
	"context"
	"io"
	"net"
)

// Command is what to run in a guest, as root.
type Command struct {
	Args []string // Args[0] is looked for on the PATH of Env when it has no slash
	// Env is all of the environment, as KEY=value. Without a PATH it gets one.
	Env []string
	Dir string // empty: /
	// Stdin is read until the command ends. One that blocks keeps its goroutine
	// until it is read once more; nil: nothing to read.
	Stdin          io.Reader
	Stdout, Stderr io.Writer // nil: nowhere
	// TTY gives the command a terminal of its own, of this size. All that it
	// writes then comes out of Stdout.
	TTY *Size
	// Resize tells of new sizes of that terminal; nil: it never changes.
	Resize <-chan Size
}

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// Dialer opens one more stream to the guest.
type Dialer func(context.Context) (net.Conn, error)
