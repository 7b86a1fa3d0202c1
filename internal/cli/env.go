package cli

import (
	"io"
	"sync/atomic"
)

// Env is everything of the process that a command may touch, so that a test
// can run a command without one.
type Env struct {
	Args           []string // without the program's name
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Getenv         func(string) string
	Environ        func() []string
	// Exit ends the process at once. It is used for one thing only: a second
	// Ctrl-C. Everything else returns through [Run].
	Exit func(code int)

	// self is the program whose command line is run: an agent runs others of it.
	self CommandLine

	// beforeExit puts back what must not stay when Exit is called; nil: nothing.
	beforeExit atomic.Pointer[func()]
}
