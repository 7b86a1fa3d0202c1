// Package kernel holds the fast path's kernel calls: it attaches and pins programs, locks pins,
// updates tracked connections, refreshes neighbours and sends ARP probes.
package kernel
