// Package netcfg builds networks in namespaces that Venturi made: links,
// addresses, routes, packet filters and processes. It knows these namespaces by
// their names, and records nothing, because deleting them undoes all of it.
package netcfg
