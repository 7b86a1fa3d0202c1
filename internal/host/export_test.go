package host

// What tests outside of the package need of made-up machines.
var (
	ContainerNamespaceBelow = containerNamespace
	Put                     = put
	PutProcess              = putProcess
	TunnelOf                = tunnelOf
)

const MostState = mostState
