// Package nlmsg holds what all readers of the kernel's netlink messages share: dumps that are
// repeated when a table changes meanwhile, and attributes by their numbers.
package nlmsg
