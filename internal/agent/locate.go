package agent

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/attachment"
	"github.com/venturi-net/venturi/internal/host"
)

// Location says which end of traffic is wanted on a machine.
type Location struct {
	Option    string     // by which the user named it: from or to
	Namespace string     // see [host.NamespaceFile]
	Addr      netip.Addr // the zero value: the only one that there is
	Device    string     // whose address is wanted; empty: any
	// PeerAddr is the other end's address; the zero value: no route is asked for yet.
	PeerAddr                  netip.Addr
	PeerNamespace, PeerOption string
}

// Locate finds an end on the agent's machine. The agent holds its namespace open from
// there. With [Location.PeerAddr] the endpoint has the MTU of the route. Errors are for
// a user.
func (c *Client) Locate(ctx context.Context, l Location) (host.Endpoint, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience*shortCall)
	defer cancel()
	req := &agentpb.LocateRequest{Option: l.Option, Namespace: l.Namespace, Device: l.Device,
		TowardNamespace: l.PeerNamespace, TowardOption: l.PeerOption}
	var err error
	if req.Addr, err = l.Addr.MarshalBinary(); err != nil {
		return host.Endpoint{}, err
	}
	if req.Toward, err = l.PeerAddr.MarshalBinary(); err != nil {
		return host.Endpoint{}, err
	}
	reply, err := c.api.Locate(ctx, req)
	if err != nil {
		return host.Endpoint{}, fromStatus(c.machine, err)
	}
	return endpointFromPB(reply.GetEnd())
}

// Locate is of [agentpb.AgentServer].
func (s *server) Locate(_ context.Context, req *agentpb.LocateRequest) (*agentpb.LocateReply, error) {
	var wanted, toward netip.Addr
	if err := wanted.UnmarshalBinary(req.GetAddr()); err != nil {
		return nil, fmt.Errorf("decode the address that is wanted: %w", err)
	}
	if err := toward.UnmarshalBinary(req.GetToward()); err != nil {
		return nil, fmt.Errorf("decode the other end's address: %w", err)
	}
	want := attachment.Selector{Device: req.GetDevice()}
	if wanted.IsValid() {
		want.Addr = wanted.String()
	}
	end, err := attachment.Find(req.GetOption(), req.GetNamespace(), want, s.hold)
	if err != nil {
		return nil, err
	}
	e := host.Endpoint{Machine: s.machine, Namespace: end.Path, Device: end.Device, Addr: end.Addr}
	if toward.IsValid() {
		if err := end.Reach(toward, req.GetTowardNamespace(), req.GetTowardOption()); err != nil {
			return nil, err
		}
		e.MTU = end.Route.MTU
	}
	pb, err := endpointToPB(e)
	return &agentpb.LocateReply{End: pb}, err
}

// hold opens a namespace once, and gives the path that is good for as long as the
// agent lives: its process may end, and its number be given to another.
func (s *server) hold(path string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.namespaces[path]; h != nil {
		return h.Path(), nil
	}
	h, err := host.OpenNetns(path)
	if err != nil {
		return "", err
	}
	s.namespaces[path] = h
	return h.Path(), nil
}

// release lets go of the namespaces, and of the lock.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unlock != nil {
		s.unlock()
	}
	for _, h := range s.namespaces {
		_ = h.Close()
	}
	clear(s.namespaces)
}
