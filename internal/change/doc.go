// Package change is the only package that writes to a machine.
//
// There are two kinds of writer. This file's neighbours hold the owned one: it
// acts only inside network namespaces that Venturi made, which it knows by
// their names, and it records nothing, because deleting the namespaces undoes
// all of it. Everything else on a machine is for a recorded writer, which this
// package does not have yet; until it has, nothing else on a machine is
// written to.
package change
