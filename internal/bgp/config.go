package bgp

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
)

// Defaults are Calico's, but for the retry, which is as short as the library
// can do it.
const (
	DefaultPort     = 179
	DefaultHold     = 90 // seconds
	defaultHoldPart = 3  // a keepalive is sent in each such part of the hold time
	defaultRetry    = 2  // seconds
	defaultScan     = 10 // seconds
)

// The hold time on the wire is a 16-bit number of seconds, and RFC 4271 allows
// none below three but 0, which turns the timer off; we do not.
const (
	MinHold = 3
	MaxHold = 65535
)

// Config is what a speaker is told, in a file. Times are in seconds; 0 takes
// the default.
type Config struct {
	ASN      uint32         `json:"asn"`
	RouterID netip.Addr     `json:"router_id"` // one that no other speaker of the AS has
	Listen   netip.AddrPort `json:"listen"`    // also the source of what it dials, and the next hop of what it announces
	// Announce are the blocks of addresses that this machine owns.
	Announce []netip.Prefix `json:"announce"`
	// Accept are the ranges whose routes this speaker installs. The routes of
	// its protocol in there are its own to delete, so no two speakers of one
	// machine may share any. Empty: all.
	Accept       []netip.Prefix `json:"accept,omitempty"`
	Hold         int            `json:"hold,omitempty"`
	Keepalive    int            `json:"keepalive,omitempty"`
	ConnectRetry int            `json:"connect_retry,omitempty"`
	// Scan is how often the kernel's routes are held against what they should
	// be. It repairs what somebody else changed, which is rare in a lab.
	Scan int `json:"scan,omitempty"`
	// ClusterID is that of a route reflector; needed when a neighbour is a client.
	ClusterID  netip.Addr  `json:"cluster_id,omitzero"`
	Neighbours []Neighbour `json:"neighbours"`
	// State is the file that says how things are; see [State].
	State string `json:"state"`
}

// Neighbour is a speaker to talk with.
type Neighbour struct {
	Address netip.Addr `json:"address"`
	ASN     uint32     `json:"asn"`
	Port    uint16     `json:"port,omitempty"` // TCP; 0: [DefaultPort]
	// Client: routes are reflected to it, and from it to all others.
	Client bool `json:"client,omitempty"`
	// Passive: wait until it dials.
	Passive bool `json:"passive,omitempty"`
}

// Load reads a config, fills defaults in and checks it. An error names the
// field.
func Load(file string) (*Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	c := new(Config)
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	c.fill()
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("read config %s: %w", file, err)
	}
	return c, nil
}

// Write makes the file that [Load] reads.
func (c *Config) Write(file string) error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}

// UnmarshalJSON is there for errors that say which field is wrong.
func (c *Config) UnmarshalJSON(text []byte) error {
	return fields(text, map[string]any{
		"asn": &c.ASN, "router_id": &c.RouterID, "listen": &c.Listen,
		"announce": &c.Announce, "accept": &c.Accept,
		"hold": &c.Hold, "keepalive": &c.Keepalive, "connect_retry": &c.ConnectRetry,
		"scan":       &c.Scan,
		"cluster_id": &c.ClusterID, "neighbours": &c.Neighbours, "state": &c.State,
	})
}

// UnmarshalJSON is as that of [Config].
func (n *Neighbour) UnmarshalJSON(text []byte) error {
	return fields(text, map[string]any{
		"address": &n.Address, "asn": &n.ASN, "port": &n.Port,
		"client": &n.Client, "passive": &n.Passive,
	})
}

// fields decodes an object one field at a time: of an address that cannot be
// parsed encoding/json does not say where it was.
func fields(text []byte, into map[string]any) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		to, known := into[name]
		if !known {
			return fmt.Errorf("%s: there is no such field", name)
		}
		if err := json.Unmarshal(object[name], to); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *Config) fill() {
	if c.Hold == 0 {
		c.Hold = DefaultHold
	}
	if c.Keepalive == 0 {
		c.Keepalive = c.Hold / defaultHoldPart
	}
	if c.ConnectRetry == 0 {
		c.ConnectRetry = defaultRetry
	}
	if c.Scan == 0 {
		c.Scan = defaultScan
	}
	for i := range c.Neighbours {
		if c.Neighbours[i].Port == 0 {
			c.Neighbours[i].Port = DefaultPort
		}
	}
}

func (c *Config) check() error {
	for _, r := range []struct {
		bad  bool
		want string
	}{
		{c.ASN == 0, "asn: want a number above 0"},
		{!c.RouterID.Is4() || c.RouterID.IsUnspecified(), "router_id: want an IPv4 address"},
		{!c.Listen.Addr().Is4() || c.Listen.Addr().IsUnspecified() || c.Listen.Port() == 0,
			"listen: want an IPv4 address and a port, as 10.0.0.1:179"},
		{c.Hold < MinHold || c.Hold > MaxHold, fmt.Sprintf("hold: want %d to %d seconds", MinHold, MaxHold)},
		{c.Keepalive < 1 || c.Keepalive >= c.Hold, "keepalive: want at least 1 second, and less than hold"},
		{c.ConnectRetry < defaultRetry || c.ConnectRetry > MaxHold,
			fmt.Sprintf("connect_retry: want %d to %d seconds", defaultRetry, MaxHold)},
		{c.Scan < 1, "scan: want at least 1 second"},
		{c.State == "", "state: want a file"},
	} {
		if r.bad {
			return fmt.Errorf("%s", r.want)
		}
	}
	if err := checkPrefixes("announce", c.Announce); err != nil {
		return err
	}
	if err := checkPrefixes("accept", c.Accept); err != nil {
		return err
	}
	return c.checkNeighbours()
}

func checkPrefixes(field string, list []netip.Prefix) error {
	for i, p := range list {
		if !p.IsValid() || !p.Addr().Is4() || p != p.Masked() {
			return fmt.Errorf("%s[%d]: want an IPv4 prefix without host bits, not %s", field, i, p)
		}
	}
	return nil
}

func (c *Config) checkNeighbours() error {
	seen := map[netip.Addr]bool{c.Listen.Addr(): true}
	for i, n := range c.Neighbours {
		switch {
		case !n.Address.Is4():
			return fmt.Errorf("neighbours[%d].address: want an IPv4 address", i)
		case seen[n.Address]:
			return fmt.Errorf("neighbours[%d].address: %s is the speaker itself or another neighbour", i, n.Address)
		case n.ASN == 0:
			return fmt.Errorf("neighbours[%d].asn: want a number above 0", i)
		case n.Client && !c.ClusterID.Is4():
			return fmt.Errorf("cluster_id: want an IPv4 address, because neighbours[%d] is a client", i)
		case n.Client && n.ASN != c.ASN:
			return fmt.Errorf("neighbours[%d].client: a client must be of this AS", i)
		}
		seen[n.Address] = true
	}
	return nil
}

// accepts tells whether a learned prefix is this speaker's to install.
func (c *Config) accepts(p netip.Prefix) bool {
	return len(c.Accept) == 0 || slices.ContainsFunc(c.Accept, func(a netip.Prefix) bool {
		return a.Bits() <= p.Bits() && a.Contains(p.Addr())
	})
}
