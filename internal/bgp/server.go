package bgp

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"
)

// start runs the protocol: it listens, dials and announces until it is
// stopped. What it learns goes to the table.
func start(ctx context.Context, c *Config, t *table, log io.Writer) (*server.BgpServer, error) {
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	s := server.NewBgpServer(server.LoggerOption(
		slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})), level))
	go s.Serve()
	for _, step := range []func() error{
		func() error {
			return s.StartBgp(ctx, &api.StartBgpRequest{Global: &api.Global{
				Asn:             c.ASN,
				RouterId:        c.RouterID.String(),
				ListenPort:      int32(c.Listen.Port()),
				ListenAddresses: []string{c.Listen.Addr().String()},
			}})
		},
		func() error {
			return s.WatchEvent(ctx, server.WatchEventMessageCallbacks{
				OnBestPath:   t.onBestPath,
				OnPeerUpdate: t.onPeer,
			}, server.WatchBestPath(false), server.WatchPeer())
		},
		func() error { return announce(s, c) },
		func() error { return addNeighbours(ctx, s, c) },
	} {
		if err := step(); err != nil {
			s.Stop()
			return nil, err
		}
	}
	return s, nil
}

// announce tells everybody whom this machine's blocks belong to.
func announce(s *server.BgpServer, c *Config) error {
	for _, block := range c.Announce {
		nlri, err := bgp.NewIPAddrPrefix(block)
		if err != nil {
			return fmt.Errorf("announce %s: %w", block, err)
		}
		hop, err := bgp.NewPathAttributeNextHop(c.Listen.Addr())
		if err != nil {
			return fmt.Errorf("announce %s: %w", block, err)
		}
		_, err = s.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{{
			Family: bgp.RF_IPv4_UC,
			Nlri:   nlri,
			Attrs:  []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(bgp.BGP_ORIGIN_ATTR_TYPE_IGP), hop},
		}}})
		if err != nil {
			return fmt.Errorf("announce %s: %w", block, err)
		}
	}
	return nil
}

// addNeighbours adds the neighbours. That a malformed route is treated as withdrawn
// instead of ending the session (RFC 7606) is how the library begins; its API
// has no word for it.
func addNeighbours(ctx context.Context, s *server.BgpServer, c *Config) error {
	for _, n := range c.Neighbours {
		peer := &api.Peer{
			Conf: &api.PeerConf{NeighborAddress: n.Address.String(), PeerAsn: n.ASN},
			Timers: &api.Timers{Config: &api.TimersConfig{
				HoldTime:          uint64(c.Hold),
				KeepaliveInterval: uint64(c.Keepalive),
				ConnectRetry:      uint64(c.ConnectRetry),
			}},
			Transport: &api.Transport{
				LocalAddress: c.Listen.Addr().String(),
				RemotePort:   uint32(n.Port),
				PassiveMode:  n.Passive,
			},
		}
		if n.Client {
			peer.RouteReflector = &api.RouteReflector{
				RouteReflectorClient:    true,
				RouteReflectorClusterId: c.ClusterID.String(),
			}
		}
		if err := s.AddPeer(ctx, &api.AddPeerRequest{Peer: peer}); err != nil {
			return fmt.Errorf("add neighbour %s: %w", n.Address, err)
		}
	}
	return nil
}
