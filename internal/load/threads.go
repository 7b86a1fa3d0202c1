package load

// ThreadCount is how many threads an end has while a slice runs. Where nobody asks for a number,
// all flows of a ping-pong have one: they share a core in any case, and switching threads
// there costs as much as the packets.
func (p *Plan) ThreadCount(l Load) int {
	switch {
	case p.Threads > 0:
		return p.Threads
	case l.Kind == PingPong && max(p.Size, p.Response) <= SharedThreadSize:
		return 1
	}
	return p.Flows
}

// SharesThreads tells whether flows of an arm share threads.
func (p *Plan) SharesThreads(l Load) bool { return p.ThreadCount(l) < p.Flows }

// ClientCore is the core of the client's thread that has a flow, and ServerCore that of the
// server's; -1: any.
func (p *Plan) ClientCore(l Load, flow int) int {
	return cpuOf(flow%p.ThreadCount(l), p.ClientCPUs, p.ClientCPU)
}

func (p *Plan) ServerCore(l Load, flow int) int {
	return cpuOf(flow%p.ThreadCount(l), p.ServerCPUs, p.ServerCPU)
}

func cpuOf(thread int, cpus []int, all int) int {
	if len(cpus) == 0 {
		return all
	}
	return cpus[thread%len(cpus)]
}
