package compare

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/reach"
	"github.com/venturi-net/venturi/internal/verr"
)

// checkReach tries whether the ends of every path reach each other, by the transports that the
// plan has. Error, for a user: those of the path that all others are compared with do not. Of
// other paths it is said, and the run leaves them out.
func (b *remoteTestbed) checkReach(ctx context.Context, r *Resolved, s *Session) error {
	s.host.Watch.Say("trying whether the ends of the paths reach each other")
	transports := transportsOf(r)
	for between, paths := range pathsByPair(r.pairs) {
		var trials []reach.Trial
		var of []int // by trial
		for _, p := range paths {
			ends := s.paths[p].ends.Pairs[0]
			for _, transport := range transports {
				trials, of = append(trials, reach.Trial{Transport: transport,
					From: reach.Socket{Namespace: ends.From.Namespace, Addr: ends.From.Addr},
					To:   reach.Socket{Namespace: ends.To.Namespace, Addr: ends.To.Addr}}), append(of, p)
			}
		}
		results, err := b.try(ctx, between, trials)
		if err != nil {
			return err
		}
		for i, result := range results {
			if result.why == "" {
				continue
			}
			err := unreachable(r, s, of[i], trials[i], result)
			if of[i] == 0 {
				return err
			}
			s.host.Watch.Say("%v", err)
		}
	}
	return nil
}

// trialResult is why the ends of a path do not reach each other; empty: they do.
type trialResult struct {
	why string
	// noListener is that the server's end could not be opened: nothing was sent.
	noListener bool
}

// try carries trials out between two machines.
func (b *remoteTestbed) try(ctx context.Context, between pair, trials []reach.Trial) ([]trialResult, error) {
	client, server := b.agents[between[0]], b.agents[between[1]]
	request := reach.Trials{Trials: trials}
	if _, err := rand.Read(request.Secret[:]); err != nil {
		return nil, err
	}
	var listening []reach.Listening
	if err := server.Call(ctx, reach.CallListen, request, &listening); err != nil {
		return nil, err
	}
	if len(listening) != len(trials) {
		return nil, fmt.Errorf("a machine reports %d listeners instead of %d", len(listening), len(trials))
	}
	results := make([]trialResult, len(trials))
	var open []int // trials whose server's end is
	request.Trials = nil
	for i, l := range listening {
		if l.Failed != "" {
			results[i] = trialResult{why: fmt.Sprintf("no port can be opened at %s (%s)", trials[i].To.Addr, l.Failed), noListener: true}
			continue
		}
		trials[i].Port = l.Port
		open, request.Trials = append(open, i), append(request.Trials, trials[i])
	}
	var failed []string
	dialErr := client.Call(ctx, reach.CallDial, request, &failed)
	var heard []bool
	if err := server.Call(context.WithoutCancel(ctx), reach.CallHeard, struct{}{}, &heard); err != nil && dialErr == nil {
		dialErr = err
	}
	if dialErr != nil {
		return nil, dialErr
	}
	if len(failed) != len(open) || len(heard) != len(trials) {
		return nil, fmt.Errorf("of %d trials between machines, one machine reports %d and the other %d", len(trials), len(failed), len(heard))
	}
	for k, i := range open {
		if failed[k] != "" {
			results[i].why = lostMessage(trials[i], heard[i], failed[k])
		}
	}
	return results, nil
}

// lostMessage says which of the two messages of a trial did not come through.
func lostMessage(t reach.Trial, heard bool, failed string) string {
	if heard {
		return fmt.Sprintf("the first message arrived, and its answer from %s, port %d, to %s did not come back (%s)", t.To.Addr, t.Port, t.From.Addr, failed)
	}
	return fmt.Sprintf("the first message from %s to %s, port %d, did not arrive (%s)", t.From.Addr, t.To.Addr, t.Port, failed)
}

// unreachable is the error of a path whose ends do not reach each other.
func unreachable(r *Resolved, s *Session, path int, t reach.Trial, result trialResult) error {
	from, to := s.machines[r.pairs[path][0]].name, s.machines[r.pairs[path][1]].name
	transport := strings.ToUpper(t.Transport)
	if result.noListener {
		return verr.New(verr.Failed, fmt.Sprintf("cannot receive %s on machine %s by path %s", transport, to, s.paths[path].arm.Name), result.why,
			"run `ss -ltunp` there: one of the ports 20000 to 29999 must be free, and the address must be that machine's own")
	}
	return verr.New(verr.Failed, fmt.Sprintf("cannot send %s from machine %s to machine %s by path %s", transport, from, to, s.paths[path].arm.Name),
		result.why, "check for a firewall or NAT between them: ports 20000 to 29999 there, and answers to ports from 10000 on, must pass; "+
			"or choose other addresses, as a=ssh://HOST?addr=ADDRESS; or leave loads by "+transport+" out")
}

// transportsOf lists those of the loads, as far as they have ports.
func transportsOf(r *Resolved) (all []string) {
	add := func(name string) {
		if l, err := load.Find(name); err == nil && (l.Transport == "tcp" || l.Transport == "udp") && !slices.Contains(all, l.Transport) {
			all = append(all, l.Transport)
		}
	}
	for _, c := range r.plan.Cells {
		add(c.Load)
		if c.Background != nil {
			add(c.Background.Load)
		}
	}
	return all
}

// pathsByPair groups the numbers of paths by their machines.
func pathsByPair(pairs []pair) map[pair][]int {
	all := map[pair][]int{}
	for i, p := range pairs {
		all[p] = append(all[p], i)
	}
	return all
}
