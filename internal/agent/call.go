package agent

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/verr"
)

// Call is of [agentpb.AgentServer].
func (s *server) Call(ctx context.Context, req *agentpb.CallRequest) (*agentpb.CallReply, error) {
	if req.GetName() == callUnlock {
		s.giveLockBack()
		return &agentpb.CallReply{Body: []byte("{}")}, nil
	}
	call := s.options.Calls[req.GetName()]
	if call == nil {
		return nil, verr.New(verr.Failed, "cannot call "+req.GetName()+" on "+s.options.Machine, "this agent has no such call", "use the same version of venturi on that machine")
	}
	body, err := call(ctx, req.GetBody())
	if err != nil {
		return nil, err
	}
	return &agentpb.CallReply{Body: body}, nil
}

// JSONCall makes a call of a function: it reads and writes the bodies.
func JSONCall[In, Out any](fn func(context.Context, In) (Out, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fmt.Errorf("decode call: %w", err)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

// Call makes one of the calls that the program of the agent adds to its own: in is what it
// gets, and out what it gives. Errors are those of the call.
func (c *Client) Call(ctx context.Context, name string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode call %s: %w", name, err)
	}
	reply, err := c.api.Call(ctx, &agentpb.CallRequest{Name: name, Body: body})
	if err != nil {
		return c.callError(err)
	}
	if err := json.Unmarshal(reply.GetBody(), out); err != nil {
		return fmt.Errorf("decode answer to %s: %w", name, err)
	}
	return nil
}
