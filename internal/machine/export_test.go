package machine

// What tests look at from outside: not every kernel and tool knows all of it.

var FickleSelector = fickleSelector
