// Package audit decides whether a host's packet filter treats every packet of an established flow
// alike. Only then may the fast path carry that flow past the filter.
package audit
