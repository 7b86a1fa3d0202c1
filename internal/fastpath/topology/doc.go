// Package topology follows how a host's network brings packets to its pods and to other hosts:
// devices, neighbours, routes and tunnels, what traffic control does to them, and every change of these.
package topology
