// Package discover finds out what a fast path would carry on a node that somebody else has
// wired: which devices lead to pods, which device or tunnel leads to other nodes, and what is
// in the way. It reads, and changes nothing.
package discover
