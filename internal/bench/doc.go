// Package bench has benchmarks of Venturi itself, each with limits that must hold: the
// fast path beside the host network, what is lost while its daemon is replaced, and
// planted faults that tune --prove must find. They are run by hand on a quiet machine,
// by cmd/venturi-bench; tests run short forms of them that no slow machine can fail.
package bench
