// Package allowlist holds the form of the fast path's allowlists: what is proven to treat all
// packets of a flow alike. Whatever is not in one is refused by its name.
package allowlist
