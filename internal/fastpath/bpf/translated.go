package bpf

// A translated flow has an entry as its pod sees it, which says all, and one as the wire sees
// it, which says where the first is.

// wireView is WIRE_VIEW of src/state.h.
const wireView = 0x80

// OnWire is the key of a flow that has these addresses and ports on the wire, because they are
// translated.
func (k vxlanFlowKey) OnWire() FlowKey {
	k.TenantProto |= wireView
	return k
}

// IsOnWire tells whether the key is one of those.
func (k vxlanFlowKey) IsOnWire() bool { return k.TenantProto&wireView != 0 }

// OtherKey is the key of the other entry of a translated flow whose entry has a key.
func (f vxlanFlow) OtherKey(k FlowKey) FlowKey {
	return FlowKey{
		TenantProto: k.TenantProto ^ wireView, Local: f.Other.Local, Remote: f.Other.Remote,
		LocalPort: f.Other.LocalPort, RemotePort: f.Other.RemotePort,
	}
}
