// Package kernel holds the fast path's kernel calls: it attaches and pins
// programs, reads and confirms tracked connections, and confirms neighbours.
package kernel
