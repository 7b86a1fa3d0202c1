// Package engine runs loads. Four engines serve all of them: ping-pong, stream, connect and
// schedule.
//
// A load has an active end (the client: it decides when a slice starts and
// ends) and a passive end (the server: it echoes or counts). Both ends get the
// [load.Plan] of a whole series once; slices then start in-band, on the very
// sockets that carry the traffic, so nothing else is on the wire and no call
// is made while a slice runs.
package engine
