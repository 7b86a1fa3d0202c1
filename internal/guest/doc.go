// Package guest is the inside of a virtual machine that package vm starts, and
// the language that the two speak.
//
// The program itself is the first process of such a machine: there is no other
// init, no image to keep, and inside and outside are always of one version. It
// comes with the kernel's first file system, mounts what is needed, sets up
// network cards, and starts itself once more as the server. The first process
// then only reaps what is orphaned, and turns the machine off when the server
// ends.
//
// The server answers on a channel, one virtio-serial port with many streams in
// it: either it runs commands, or it is the agent of a machine. Whoever holds
// the other end may do anything in the machine; nobody else can reach it. When
// that end is closed, the machine turns itself off.
package guest
