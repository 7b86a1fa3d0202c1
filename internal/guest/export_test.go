package guest

// What the tests outside of the package look at.
var (
	DeviceNode = deviceNode
	ReadLine   = readLine
	WriteLine  = writeLine
)
