// Package audit finds out whether what a host's packet filter says of one packet of a flow holds
// for the next one, too. Only then may the fast path carry that flow past the filter.
package audit
