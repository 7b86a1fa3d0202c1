// Package readers decides whether traffic control, where a wire sends, may tell packets of the fast path from others:
// which filters and options of queueing disciplines read no more than a packet's contents, its mark and its priority.
// Packets of the fast path have no mark, but the same priority. The device that they came from is another, and they
// have no conntrack entry.
package readers
