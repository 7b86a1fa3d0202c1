// Package pods measures between pods what the loads of a lab cannot: through the address of a
// Service, between pods of one host, and over IPv6. It builds what a lab lacks into one, and has
// sockets of its own. Its figures are compared with each other only: an agent's threads are faster.
package pods
