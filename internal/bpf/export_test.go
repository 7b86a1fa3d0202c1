package bpf

// Slot is where cores keep a copy of a flow; src/known.h reckons it.
func Slot(k FlowKey) uint64 { return mix(k) >> 53 }
