// Package node keeps the fast path of a node that somebody else has wired: it comes as a write
// of the journal, so that whatever becomes of its daemon, an undo removes all of it.
package node
