package kernel

// RemoveClsact removes clsact from a device of the calling thread's namespace. It calls step just before, when it has
// found that it is a fast path's.
var RemoveClsact = removeClsact
