// Package shadow compares what a fast path would send with what the network sends.
//
// The programs of a shadow carry nothing. For a packet that would be carried they write a record
// of what would be sent, and where the network hands the packet on another one, of what is. This
// package reads the records, pairs them, and compares the packets byte by byte.
package shadow
