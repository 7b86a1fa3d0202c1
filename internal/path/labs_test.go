package path_test

import (
	"context"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// text is the spec, when what it needs is there.
func (v variant) text(t *testing.T, mtu int) string {
	t.Helper()
	if v.prepare == nil {
		return v.spec
	}
	return v.spec + v.prepare(t, mtu)
}

// labOf asks for a lab with the given variants over a wire, as text.
func labOf(t *testing.T, list []variant, text string) lab.Options {
	t.Helper()
	testenv.Root(t)
	wire, err := lab.ParseWire(text)
	testenv.Must(t, err)
	o := lab.Options{Name: testenv.LabName(), Wire: wire, Program: testenv.Program(t)}
	for _, v := range list {
		o.Paths = append(o.Paths, v.text(t, wire.MTU))
	}
	return o
}

// raise raises such a lab over the default wire.
func raise(t *testing.T, list []variant) *lab.Lab {
	t.Helper()
	return testenv.Lab(t, labOf(t, list, ""))
}

// inTurn raises labs and uses one after the other. While one is used the next
// is raised: most of that time goes by in waiting for daemons.
func inTurn(t *testing.T, labs []lab.Options, use func(l *lab.Lab, o lab.Options)) {
	t.Helper()
	type raised struct {
		l   *lab.Lab
		err error
	}
	ready := make(chan raised)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ready)
		for _, o := range labs {
			l, err := lab.Up(ctx, o)
			ready <- raised{l, err}
			if err != nil {
				return
			}
		}
	}()
	defer func() { // after a failure
		cancel()
		for r := range ready {
			if r.err == nil {
				testenv.Must(t, r.l.Down())
			}
		}
	}()
	for _, o := range labs {
		r := <-ready
		testenv.Must(t, r.err)
		use(r.l, o)
		testenv.Must(t, r.l.Down())
	}
}
