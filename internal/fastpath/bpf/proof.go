package bpf

// Proof is what SeenOut or SeenIn of the entry with a key is, if the network has forwarded its flow that way in an
// epoch, between its pod and its peer. proof_of of src/slots.h computes the same.
func (f vxlanFlow) Proof(k FlowKey, epoch uint32) uint32 {
	proof := epoch ^ f.digest(k)
	if proof == 0 {
		return 1
	}
	return proof
}

func (f vxlanFlow) digest(k FlowKey) uint32 {
	own := hashKey(k)
	wire := own
	if f.Translated != 0 {
		wire = hashKey(f.OtherKey(k))
	}
	hash := own + wire*0xd6e8feb86659fd93
	hash = (hash ^ uint64(f.Peer)<<32 ^ uint64(f.PeerEpoch)) * 0xe7037ed1a0b428db
	hash = ((hash ^ hash>>32) + uint64(f.PodEpoch)) * 0xa0761d6478bd642f
	return uint32(hash >> 32)
}
