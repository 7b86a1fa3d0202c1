// Package topology follows how a host's network delivers packets to its pods and to other hosts:
// devices, neighbours, routes, tunnels and traffic control, and every change to them.
package topology
