// Package host reads a machine, and never writes to it: namespaces,
// endpoints, facts. Reads of /proc and /sys go through a root folder, so tests
// can give them a fixture.
package host

import "net/netip"

// Endpoint is one end of traffic.
type Endpoint struct {
	Machine   string     `json:"machine"`   // name of the machine it is on
	Namespace string     `json:"namespace"` // path of a network namespace file; empty: that of the process
	Device    string     `json:"device"`    // that carries Addr
	Addr      netip.Addr `json:"addr"`
	MTU       int        `json:"mtu"` // bytes
	// Agent is the socket of the agent in the virtual machine that the end is
	// in; Namespace is then that in which the virtual machine's network cards
	// are. Empty: the end is on the machine itself.
	Agent string `json:"agent,omitempty"`
}
