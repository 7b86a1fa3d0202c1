package display

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// PrintFastPathPlan prints what a fast path would carry on a node, and what not.
func PrintFastPathPlan(out io.Writer, p *discover.Plan) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	wire := p.Wire
	if p.Layers != "" {
		wire += " (" + p.Layers + ")"
	}
	switch p.Kind {
	case fastpath.VXLAN:
		sanitize.Fprintf(w, "to other nodes by %s: VXLAN (VNI %d, UDP port %d) over %s\n", p.Tunnel, p.VNI, p.Port, wire)
	case fastpath.VXLAN6:
		sanitize.Fprintf(w, "IPv6 to other nodes by %s: VXLAN over IPv6 (VNI %d, UDP port %d) over %s\n", p.Tunnel, p.VNI, p.Port, wire)
	case fastpath.Geneve:
		sanitize.Fprintf(w, "to other nodes by %s: Geneve (%sUDP port %d) over %s\n", geneveDevices(p), commonVNI(p), p.Port, wire)
	case fastpath.IPIP:
		sanitize.Fprintf(w, "to other nodes by %s: IPIP over %s\n", p.Tunnel, wire)
	case fastpath.Routed:
		sanitize.Fprintf(w, "to other nodes by %s, without encapsulation\n", wire)
	case fastpath.Routed6:
		sanitize.Fprintf(w, "IPv6 to other nodes by %s, without encapsulation\n", wire)
	}
	if p.Off != "" {
		sanitize.Fprintf(w, "nothing is carried: %s\n", p.Off)
	}
	if len(p.Pods) > 0 {
		sanitize.Fprintf(w, "\nPOD\tADDRESS\tFLOWS\tWHY\n")
	}
	for _, pod := range p.Pods {
		sanitize.Fprintf(w, "%s\t%s\t%s\t%s\n", pod.Device, cmp.Or(pod.Addr, "-"), string(pod.Outlook), pod.Reason)
	}
	if len(p.Peers) > 0 {
		sanitize.Fprintf(w, "\nPEER\tROUTES\tFLOWS\tWHY\n")
	}
	for _, peer := range p.Peers {
		routes := ""
		if len(peer.Routes) > 0 {
			routes = peer.Routes[0].String()
		}
		if more := len(peer.Routes) - 1; more > 0 {
			routes += fmt.Sprintf(" and %d more", more)
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%s\n", peer.Addr.String(), cmp.Or(routes, "-"), string(peer.Outlook), peer.Reason)
	}
	if len(p.LeftAlone) > 0 {
		sanitize.Fprintf(w, "\nLEFT ALONE\tWHY\n")
	}
	for _, l := range p.LeftAlone {
		sanitize.Fprintf(w, "%s\t%s\n", l.Device, l.Reason)
	}
	if p.CarriesAny() && p.Counters != nil {
		printCounters(w, *p.Counters, p.Kind, p.Wire, []string{p.Tunnel})
	}
	if p.CarriesAny() {
		printUncarried(w, p.Unreplied, p.Uncarried)
	}
	return w.Flush()
}

// printUncarried prints which kinds of traffic stay slow.
func printUncarried(w io.Writer, unreplied string, others []fastpath.Uncarried) {
	if unreplied != "" {
		sanitize.Fprintf(w, "one-way UDP stays on the slow path: %s\n", unreplied)
	}
	for _, u := range others {
		sanitize.Fprintf(w, "%s stays on the slow path: %s\n", u.What, u.Why)
	}
}

// geneveDevices names the devices that lead to a peer each: two of many.
func geneveDevices(p *discover.Plan) string {
	const most = 2
	more := len(p.Tunnels) - most
	if more <= 0 {
		return strings.Join(p.Tunnels, " and ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(p.Tunnels[:most], ", "), more)
}

// commonVNI is the VNI of all of them, if they have no others.
func commonVNI(p *discover.Plan) string {
	if p.VNI == 0 {
		return ""
	}
	return fmt.Sprintf("VNI %d, ", p.VNI)
}
