package fastpath

import (
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
)

// Uncarried is a kind of traffic that stays slow, whichever pods and peers it has.
type Uncarried struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// uncarried are the kinds of translated traffic that stay slow here; ipvs: this node has IPVS.
func (c *Config) uncarried(ipvs bool) []Uncarried {
	if c.NoNAT {
		return nil // nothing that is translated is carried
	}
	outside := Uncarried{"traffic of pods outside the tunnel, such as with clients and servers outside the cluster",
		"there, the programs know only the tunnel's headers"}
	// Anybody may send resets there. Connection tracking believes those whose place in the stream may be
	// right, and does not see how far a carried connection has come.
	masqueraded := Uncarried{"TCP that is masqueraded behind this node's own address, or comes to it by a NodePort",
		"anybody may forge resets to that address, and for carried connections, connection tracking cannot tell them from real ones"}
	all := []Uncarried{
		{"traffic that comes to a NodePort of this node for a pod on another node", "neither of its ends is a pod of this node"},
		{"one-way UDP that is translated, such as to a Service", "a translated flow is carried only after its first reply"},
	}
	if c.family() == audit.IPv6 {
		all = append(all, Uncarried{"traffic to a Service whose pod is on this node", "over IPv6, translated connections between pods of one node are not carried"})
	}
	switch c.Kind {
	case Routed, Routed6:
		all = slices.Insert(all, 0, masqueraded)
	case VXLAN6:
		outside.Why = "it does not pass the tunnel's device, where the programs are"
		all = slices.Insert(all, 0, outside, masqueraded)
	default:
		all = slices.Insert(all, 0, outside)
	}
	if ipvs {
		all = slices.Insert(all, 0, Uncarried{"all traffic that this node leads to Services by IPVS (kube-proxy in mode ipvs)",
			"IPVS translates by connections of its own, which the programs do not read"})
	}
	return all
}
