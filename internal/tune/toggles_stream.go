package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/verr"
)

// Toggles of another machine are behind a stream of JSON: first it says what can be
// switched, then each line names what is to be on, and is answered by one. At the end of
// the stream everything is taken back.

// streamHead is what can be switched.
type streamHead struct {
	Candidates []streamCandidate `json:"candidates"`
	Unfit      []search.Row      `json:"unfit"`
}

type streamCandidate struct {
	Name        string             `json:"name"`
	Group       string             `json:"group,omitempty"`
	Assignments []streamAssignment `json:"assignments"`
}

type streamAssignment struct {
	Knob   string      `json:"knob"`
	Target knob.Target `json:"target"`
	Value  string      `json:"value"`
}

type streamSwitch struct {
	On []string `json:"on"` // names of candidates
}

type streamSwitched struct {
	Error string `json:"error,omitempty"`
}

// serveToggles serves toggles to whoever is on the other end of a stream, until it ends or
// ctx does.
func serveToggles(ctx context.Context, in io.Reader, out io.Writer, t Toggles, pruned []search.Row) (err error) {
	defer func() { err = errors.Join(err, t.Close()) }()
	fit, unfit, err := t.Prepare(ctx)
	if err != nil {
		return err
	}
	head := streamHead{Unfit: append(unfit, pruned...)}
	for _, c := range fit {
		sent := streamCandidate{Name: c.Name, Group: c.Group}
		for _, w := range c.Assignments {
			sent.Assignments = append(sent.Assignments, streamAssignment{w.Knob.Name, w.Target, w.Value})
		}
		head.Candidates = append(head.Candidates, sent)
	}
	answers := json.NewEncoder(out)
	if err := answers.Encode(head); err != nil {
		return err
	}
	requests := readRequests(ctx, in)
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case r, more := <-requests:
			if !more {
				return nil
			}
			var to search.Subset
			for i, c := range fit {
				if slices.Contains(r.On, c.Name) {
					to = append(to, i)
				}
			}
			var done streamSwitched
			err := t.Switch(ctx, to)
			if verr.Code(err) == verr.Partial {
				return err // with its parts, by the command
			}
			if err != nil {
				done.Error = err.Error()
			}
			if err := answers.Encode(done); err != nil {
				return err
			}
		}
	}
}

// readRequests gives what a stream asks for, until it ends or ctx does.
func readRequests(ctx context.Context, in io.Reader) <-chan streamSwitch {
	requests := make(chan streamSwitch)
	go func() {
		defer close(requests)
		for d := json.NewDecoder(in); ; {
			var r streamSwitch
			if d.Decode(&r) != nil {
				return
			}
			select {
			case requests <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return requests
}

// StreamToggles are toggles behind a stream. Who made the stream ends it.
type StreamToggles struct {
	in    io.Writer
	out   *json.Decoder
	names []string // of the candidates that Prepare gave, by their indexes
}

// DialToggles begins to speak to toggles behind a stream.
func DialToggles(in io.Writer, out io.Reader) *StreamToggles {
	return &StreamToggles{in: in, out: json.NewDecoder(out)}
}

// Prepare is of [Toggles].
func (s *StreamToggles) Prepare(context.Context) (fit []Candidate, unfit []search.Row, err error) {
	var head streamHead
	if err := s.out.Decode(&head); err != nil {
		return nil, nil, fmt.Errorf("read what can be switched: %w", err)
	}
	for _, sent := range head.Candidates {
		c := Candidate{Name: sent.Name, Group: sent.Group}
		for _, w := range sent.Assignments {
			entry, err := table.Find(w.Knob)
			if err != nil {
				return nil, nil, err
			}
			c.Assignments = append(c.Assignments, Assignment{Knob: entry, Target: w.Target, Value: w.Value})
		}
		if len(c.Assignments) > 0 {
			fit, s.names = append(fit, c), append(s.names, c.Name)
		}
	}
	return fit, head.Unfit, nil
}

// Switch is of [Toggles]. It does not end with a context: its answer would be taken for that of the next.
func (s *StreamToggles) Switch(_ context.Context, to search.Subset) error {
	r := streamSwitch{On: []string{}}
	for _, i := range to {
		r.On = append(r.On, s.names[i])
	}
	if err := json.NewEncoder(s.in).Encode(r); err != nil {
		return err
	}
	var done streamSwitched
	if err := s.out.Decode(&done); err != nil {
		return fmt.Errorf("wait until it is switched: %w", err)
	}
	if done.Error != "" {
		return errors.New(done.Error)
	}
	return nil
}
