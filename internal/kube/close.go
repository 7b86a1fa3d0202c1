package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/verr"
)

// Close ends the agents, and removes all that was made. It works after the context of the run
// ended, and waits for an API server that is away for a while.
func (p *Placement) Close() error {
	p.Leave()
	if !p.created {
		return nil
	}
	deadline := time.Now().Add(removalLimit)
	for {
		err := p.remove()
		if err == nil || verr.Code(err) == verr.Permission || time.Now().After(deadline) {
			return p.removalError(err)
		}
		time.Sleep(time.Second)
	}
}

// Leave ends the agents, and removes nothing: what is of a trial goes by itself when that is over.
func (p *Placement) Leave() {
	var closing sync.WaitGroup
	for _, a := range p.Agents {
		closing.Go(func() { _ = a.Close() }) // it is over, however it ends
	}
	closing.Wait()
}

func (p *Placement) remove() error {
	ctx := context.Background()
	r, c := p.run, p.client
	found, err := c.find(ctx, r.Options.Namespace, r.selector(), r.claimName())
	if err != nil {
		return err
	}
	if _, err := c.removeFound(ctx, found); err != nil {
		return err
	}
	return c.waitGone(ctx, r.Options.Namespace, r.selector(), r.claimName())
}

// removalError tells what is there still.
func (p *Placement) removalError(err error) error {
	if err == nil {
		return nil
	}
	why := err
	var known *verr.Error
	if errors.As(err, &known) {
		why = errors.New(known.Reason)
	}
	return &verr.Error{Code: verr.Failed, Summary: "cannot remove Venturi's objects in namespace " + p.run.namespace, Reason: why.Error(), Err: err,
		Hint: "its pods end by themselves within half a minute; remove the rest with: kubectl venturi cleanup"}
}
