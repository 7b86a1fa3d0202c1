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
	Addr      netip.Addr // the zero value: that of the route towards the other end
	Device    string     // whose address is wanted; empty: any
	// PeerAddrs are those that the other end may have; none: no route is asked for yet.
	PeerAddrs                 []netip.Addr
	PeerNamespace, PeerOption string
}

// Located is an end that was found.
type Located struct {
	host.Endpoint
	Addrs    []netip.Addr // that it may have
	PeerAddr netip.Addr   // of the other end, to which the route is
}

// Locate finds an end on the agent's machine. The agent holds its namespace open from
// there. With [Location.PeerAddrs] the address of either end is chosen, and the endpoint
// has the MTU of the route. Errors are for a user.
func (c *Client) Locate(ctx context.Context, l Location) (found Located, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeoutScale*shortCall)
	defer cancel()
	req := &agentpb.LocateRequest{Option: l.Option, Namespace: l.Namespace, Device: l.Device,
		TowardNamespace: l.PeerNamespace, TowardOption: l.PeerOption}
	if req.Addr, err = l.Addr.MarshalBinary(); err != nil {
		return found, err
	}
	if req.Toward, err = addrsToPB(l.PeerAddrs); err != nil {
		return found, err
	}
	reply, err := c.api.Locate(ctx, req)
	if err != nil {
		return found, c.callError(err)
	}
	if found.Addrs, err = addrsFromPB(reply.GetAddrs()); err != nil {
		return found, err
	}
	if err := found.PeerAddr.UnmarshalBinary(reply.GetToward()); err != nil {
		return found, fmt.Errorf("decode the other end's address: %w", err)
	}
	found.Endpoint, err = endpointFromPB(reply.GetEnd())
	return found, err
}

// Locate is of [agentpb.AgentServer].
func (s *server) Locate(_ context.Context, req *agentpb.LocateRequest) (*agentpb.LocateReply, error) {
	var wanted netip.Addr
	if err := wanted.UnmarshalBinary(req.GetAddr()); err != nil {
		return nil, fmt.Errorf("decode the address that is wanted: %w", err)
	}
	toward, err := addrsFromPB(req.GetToward())
	if err != nil {
		return nil, err
	}
	want := attachment.Selector{Device: req.GetDevice()}
	if wanted.IsValid() {
		want.Addr = wanted.String()
	}
	end, err := attachment.Find(req.GetOption(), req.GetNamespace(), want, s.hold)
	if err != nil {
		return nil, err
	}
	reply := &agentpb.LocateReply{}
	if reply.Addrs, err = addrsToPB(end.Addrs()); err != nil {
		return nil, err
	}
	if len(toward) > 0 {
		peer, err := end.Reach(toward, req.GetTowardNamespace(), req.GetTowardOption())
		if err != nil {
			return nil, err
		}
		if reply.Toward, err = peer.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	reply.End, err = endpointToPB(host.Endpoint{Machine: s.options.Machine, Namespace: end.Path, Device: end.Device, Addr: end.Addr, MTU: end.Route.MTU})
	return reply, err
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
	s.giveLockBack()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.namespaces {
		_ = h.Close()
	}
	clear(s.namespaces)
}

func addrsToPB(addrs []netip.Addr) (out [][]byte, err error) {
	for _, a := range addrs {
		b, err := a.MarshalBinary()
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

func addrsFromPB(in [][]byte) (addrs []netip.Addr, err error) {
	for _, b := range in {
		var a netip.Addr
		if err := a.UnmarshalBinary(b); err != nil {
			return nil, fmt.Errorf("decode an address: %w", err)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}
