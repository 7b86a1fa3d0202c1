// Package remote opens a stream to this very program on another machine.
//
// Who may do that is decided by whoever carries the stream: the user's own ssh,
// with its configuration, keys and proxies. There is no daemon, no port and no
// key of ours. What starts on the other side ends with the stream, and leaves
// nothing: a copy of the program is deleted by the program itself, as soon as
// it runs.
package remote
