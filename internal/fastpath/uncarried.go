package fastpath

// Uncarried is a kind of traffic that stays slow, whichever pods and peers it has.
type Uncarried struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// uncarried are the kinds of translated traffic that stay slow here.
func (d *daemon) uncarried() (all []Uncarried) {
	switch {
	case d.NoNAT || d.Kind == Routed6:
		return nil // nothing that is translated is carried
	case d.Kind != Routed:
		all = append(all, Uncarried{"traffic between pods and clients or servers outside the cluster", "it travels outside of the tunnel"})
	case !d.audit.liberalTCP:
		all = append(all, Uncarried{"TCP that is masqueraded behind this node's own address, or comes to it by a NodePort",
			"anybody may forge resets to that address, and connection tracking cannot tell those to carried connections from real ones: " +
				"with net.netfilter.nf_conntrack_tcp_be_liberal = 1 it does not try, and it is carried"})
	}
	return append(all, Uncarried{"traffic that comes to a NodePort of this node for a pod of another one", "neither of its ends is a pod of this node"})
}

// setOwnTCP sets whether TCP may be carried that is translated behind an address of the host itself.
// Anybody may send resets there. Connection tracking believes those whose place in the stream may be
// right, and does not see how far a carried connection has come. So forged ones could end an idle
// connection which would otherwise be safe; not so where it checks no windows of any connection.
func (d *daemon) setOwnTCP() error {
	if err := d.objs.SetOwnTCP(d.audit.liberalTCP); err != nil {
		return err
	}
	return d.invalidate()
}
