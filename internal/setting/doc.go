// Package setting reads and writes single values of a machine: a sysctl, the
// rings of a device, a file. Each is read and written whole, as a setting of a
// backend, and what was read can be written back byte for byte. It records
// nothing: the journal does, before each write.
package setting
