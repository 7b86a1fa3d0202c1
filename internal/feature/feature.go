// Package feature finds out what the machine can do. What the kernel can is
// found by asking it to: each probe tries the thing in a namespace that nobody
// else sees. Versions of the kernel are never looked at, because distributions
// move features between them. Programs are looked for where a shell would.
package feature

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"github.com/venturi-net/venturi/internal/netcfg"
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

// Need is one thing that somebody needs of the machine: a [Probe] of the
// kernel, or a [Program].
type Need interface {
	// String names it: "vxlan device", "ovs-vswitchd (package openvswitch-switch)".
	String() string
	// Ask finds out. The error says why the answer is not yes.
	Ask() (Answer, error)
	// Lack says for a user what is lacking when it is, and how to get it:
	// "this kernel has no vxlan device", "load the module vxlan, ...".
	Lack() (lacks, get string)
}

// Probe asks for one feature of the kernel.
type Probe struct {
	Name string // "a vxlan device"
	Get  string // how to get it: "load the module vxlan (modprobe vxlan), ..."
	Try  func(*netcfg.Namespace) error
}

// answers keeps what the kernel said. Only a yes or a no is kept; what could
// not be told may be told the next time.
var answers sync.Map // of Probe.Name to finding

type finding struct {
	answer Answer
	reason error
}

// Ask tries the feature. The error says why the answer is not yes.
func (p *Probe) Ask() (Answer, error) {
	if known, ok := answers.Load(p.Name); ok {
		f := known.(finding)
		return f.answer, f.reason
	}
	err := netcfg.WithScratch(p.Try)
	f := finding{answer: classify(err), reason: err}
	if f.answer != Unknown {
		answers.Store(p.Name, f)
	}
	return f.answer, f.reason
}

// String is of [Need].
func (p *Probe) String() string { return p.Name }

// Lack is of [Need].
func (p *Probe) Lack() (lacks, get string) { return "this kernel has no " + p.Name, p.Get }

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

// OtherKernel is another way to get what a kernel lacks, behind how to get it
// for this one.
const OtherKernel = "; or give --kernel 6.12, which \"venturi kernel fetch 6.12\" keeps here"

// Require gives an error for a user if the machine lacks one of the needs. One
// that could not be told does not stop anybody: the attempt itself will show.
func Require(what string, needs ...Need) error { return require(what, OtherKernel, needs) }

// RequireHere is [Require] for commands about this machine itself, where another kernel in a VM is no help.
func RequireHere(what string, needs ...Need) error { return require(what, "", needs) }

func require(what, otherKernel string, needs []Need) error {
	for _, n := range needs {
		if answer, why := n.Ask(); answer == No {
			lacks, get := n.Lack()
			if _, kernels := n.(*Probe); kernels {
				get += otherKernel
			}
			return &verr.Error{
				Summary: what, Reason: fmt.Sprintf("%s: %v", lacks, why), Hint: get, Code: verr.Missing, Err: why,
			}
		}
	}
	return nil
}

// RequireRights gives an error for a user if root may not do what the needs take, as in a container.
func RequireRights(what string, needs ...Need) error {
	for _, n := range needs {
		answer, why := n.Ask()
		if answer != Unknown || !isDenied(why) {
			continue
		}
		return &verr.Error{
			Summary: what, Code: verr.Permission, Err: why,
			Reason: fmt.Sprintf("root may not do here what it takes (%v): CAP_SYS_ADMIN and CAP_NET_ADMIN are needed, "+
				"and a /proc/sys that is not read-only, which most containers do not have", why),
			Hint: "run it on the host itself, or in a container that may do it (docker run --privileged)" + OtherKernel,
		}
	}
	return nil
}

// isDenied tells whether something failed for a lack of rights.
func isDenied(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EROFS)
}
