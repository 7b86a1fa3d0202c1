package setting

// Backends are those of this package. Root is the folder that holds proc, sys and
// etc, for what belongs to the whole host; empty on a real machine.
func Backends(root string) []Backend {
	return append(deviceBackends(),
		sysctlBackend(),
		ipv6Backend(),
		kernelFileBackend(root),
		fileBackend(root),
		irqBackend(root),
		pmqosBackend(root),
		unitBackend(),
		unitFileBackend(),
		unitConfigBackend(root),
		tunedBackend(root),
		nftBackend(),
		cardBackend(),
	)
}
