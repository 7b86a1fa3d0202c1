// Package e2e tests the fast path end to end: real packets over the paths of labs, with and
// without it. It holds tests only.
//
// Most tests compare. They send the same packets over a path with the fast path and one without,
// while rules, routes, neighbours and Services change, and want the same to arrive.
package e2e
