// Package verr holds the errors that a user sees: what failed, why, and what
// to do about it, with the exit code that a script can act on.
//
// Library code returns plain wrapped errors ("open record: %w"). The layer
// that knows what the user asked for turns them into an [Error].
package verr

import (
	"errors"
	"io"
	"os"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Exit codes of the venturi command. They are documented in `venturi help exit-codes`
// and are a promise: a number never changes its meaning.
const (
	OK          = 0   // done, whatever the verdicts were
	Failed      = 1   // something that should work did not
	Usage       = 2   // the request makes no sense; nothing was changed
	Permission  = 3   // not root, or not allowed
	Missing     = 4   // the kernel or the machine lacks something that was asked for
	Busy        = 5   // another run holds the lock, or another command is changing the machine
	BadRecord   = 6   // a record is truncated, newer than this program, or not a record
	Partial     = 7   // the run ended with some arms failed; or of an undo, what somebody else has changed since was left
	Findings    = 8   // doctor found errors or warnings; they are printed
	Interrupted = 130 // Ctrl-C; what was measured until then is reported
)

// Error is a failure told to a person. Summary, Reason and Hint are sentences without
// a final full stop; none of them is empty.
type Error struct {
	Summary string // what failed: "cannot raise path vxlan"
	Reason  string // why: "this kernel has no vxlan device"
	Hint    string // what to do: "load the vxlan module, or run under another kernel"
	Code    int    // exit code, one of the constants above
	Err     error  // the cause, if there is one to unwrap
}

func (e *Error) Error() string { return e.Summary + ": " + e.Reason + " (" + e.Hint + ")" }

// Unwrap gives the cause, so that errors.Is sees through an Error.
func (e *Error) Unwrap() error { return e.Err }

// New makes an Error from its three parts.
func New(code int, what, why, do string) *Error {
	return &Error{Summary: what, Reason: why, Hint: do, Code: code}
}

// Wrap makes an Error whose reason is the text of err. If err already is an
// Error it is returned as it is: the innermost layer knew best.
func Wrap(code int, what string, err error, do string) error {
	if err == nil {
		return nil
	}
	var known *Error
	if errors.As(err, &known) {
		return err
	}
	return &Error{Summary: what, Reason: err.Error(), Hint: do, Code: code, Err: err}
}

// Code gives the exit code for err: 0 for nil, the code of an Error, else [Failed].
func Code(err error) int {
	if err == nil {
		return OK
	}
	var e *Error
	if errors.As(err, &e) && e.Code != OK {
		return e.Code
	}
	return Failed
}

// Split parts what another process of ours said before its last message from that.
func Split(text string) (before, last string) {
	at := strings.LastIndex("\n"+text, "\nventuri: ")
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at:]
}

// Parse reads an Error from what [Print] wrote last in a text, such as the log of
// another process of ours; nil: there is none. Its code is code.
func Parse(code int, text string) error {
	_, last := Split(text)
	lines := strings.Split(strings.TrimPrefix(last, "venturi: "), "\n")
	if len(lines) < 3 || !strings.HasPrefix(lines[1], "  why: ") || !strings.HasPrefix(lines[2], "  do:  ") {
		return nil
	}
	return New(code, lines[0], lines[1][len("  why: "):], lines[2][len("  do:  "):])
}

// ReadFile reads the Error with which another of our processes ended, from the file of what
// it said; err if it said none.
func ReadFile(file string, err error) error {
	text, _ := os.ReadFile(file) // without it, err has to do
	if said := Parse(Failed, string(text)); said != nil {
		return said
	}
	return err
}

// Print writes err the way a terminal shows it: three lines for an Error, one
// for anything else.
func Print(w io.Writer, err error) {
	var e *Error
	if errors.As(err, &e) {
		sanitize.Fprintf(w, "venturi: %s\n  why: %s\n  do:  %s\n", e.Summary, e.Reason, e.Hint)
		return
	}
	sanitize.Fprintf(w, "venturi: %v\n", err)
}
