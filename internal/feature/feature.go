// Package feature finds out what the kernel can do, by asking it to: each
// probe tries the thing in a namespace that nobody else sees. Versions of the
// kernel are never looked at, because distributions move features between them.
package feature

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/verr"
)

// Answer is what a probe found.
type Answer int

// The three answers.
const (
	Unknown Answer = iota // could not tell: something else went wrong
	Yes
	No
)

func (a Answer) String() string {
	switch a {
	case Yes:
		return "yes"
	case No:
		return "no"
	}
	return "could not tell"
}

// Probe asks for one feature.
type Probe struct {
	Name string // "a vxlan device"
	Get  string // how to get it: "load the module vxlan (modprobe vxlan), ..."
	Try  func(*change.Namespace) error
}

// answers keeps what the kernel said. Only a yes or a no is kept; what could
// not be told may be told the next time.
var answers sync.Map // of Probe.Name to finding

type finding struct {
	answer Answer
	why    error
}

// Ask tries the feature. The error says why the answer is not yes.
func (p *Probe) Ask() (Answer, error) {
	if known, ok := answers.Load(p.Name); ok {
		f := known.(finding)
		return f.answer, f.why
	}
	err := change.Scratch(p.Try)
	f := finding{answer: classify(err), why: err}
	if f.answer != Unknown {
		answers.Store(p.Name, f)
	}
	return f.answer, f.why
}

// classify reads from a failure whether the kernel lacks the thing or whether
// the attempt failed for another reason, such as a lack of rights.
func classify(err error) Answer {
	if err == nil {
		return Yes
	}
	for _, lacking := range []error{
		syscall.EOPNOTSUPP, syscall.EPROTONOSUPPORT, syscall.EAFNOSUPPORT,
		syscall.ENOENT, syscall.ENODEV, syscall.ENOSYS, os.ErrNotExist,
	} {
		if errors.Is(err, lacking) {
			return No
		}
	}
	return Unknown
}

// Require gives an error for a user if the kernel says no to one of the
// probes. A probe that could not tell does not stop anybody: the attempt itself
// will show.
func Require(what string, probes ...*Probe) error {
	for _, p := range probes {
		if answer, why := p.Ask(); answer == No {
			return &verr.Error{
				What: what,
				Why:  fmt.Sprintf("this kernel has no %s: %v", p.Name, why),
				Do:   p.Get,
				Code: verr.Missing,
				Err:  why,
			}
		}
	}
	return nil
}
