package kernel

// RemoveClsact removes clsact from a device of the calling thread's namespace. It calls step just before, when it has
// found that it is a fast path's.
var RemoveClsact = removeClsact

// RefuseRealTime refuses versions of the kernel that are real-time ones.
func RefuseRealTime(version string) error { return refuseRealTime(version) }
