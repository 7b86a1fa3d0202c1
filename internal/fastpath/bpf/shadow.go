package bpf

import "github.com/cilium/ebpf"

// ShadowRecord is what the programs of a shadow say of a packet; the packet follows it.
type ShadowRecord = shadowVxlanShadowRecord

// shadowRecords is the table by which they hand records to the daemon.
const shadowRecords = "shadow_records"

// Records is the table of the records of a shadow ([ShadowRecord]); nil: these programs carry.
func (o *Objects) Records() *ebpf.Map { return o.extraTables[shadowRecords] }
