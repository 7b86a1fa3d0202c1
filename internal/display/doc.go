// Package display prints what commands show other than reports of records:
// labs, paths, kernels, knobs, plans, proofs, the journal and undos, as text and
// as JSON. One file a subject. It reads flags of nobody and changes nothing.
package display
