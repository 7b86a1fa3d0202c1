package bpf

// Sibling is SIBLING of src/state.h: in [Flow].Peer, with the ifindex of a device, it says that what the
// pod sends goes to the pod of this device, which is on the same host.
const Sibling = 0x80000000
