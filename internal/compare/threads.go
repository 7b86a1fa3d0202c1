package compare

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

const (
	// manyEnds is how many ends any machine allows.
	manyEnds = 2048
	// spareThreads are for all else that a comparison starts, and spareFiles for
	// what an agent opens beside its sockets.
	spareThreads = 512
	spareFiles   = 512
	// filesPerEnd is of the passive end: a TCP listener and its connection.
	filesPerEnd = 2
)

// ends is how many flows all arms have in the cell that has most.
func (r *Resolved) ends() int {
	most := 0
	for _, c := range r.plan.Cells {
		most = max(most, c.Flows*len(r.plan.Arms))
	}
	return most
}

// checkThreads refuses more ends than this machine lets programs have threads
// and sockets for: a Go program that gets no thread dies without a word.
func (r *Resolved) checkThreads() error {
	ends := r.ends()
	if ends <= manyEnds {
		return nil
	}
	files, err := host.FileRoom()
	if err != nil {
		return err
	}
	return roomFor(ends, host.Reader{}.ThreadRoom(), files)
}

// roomFor: both ends of a flow are threads of this machine, in two processes.
func roomFor(ends int, threads, files host.Limit) error {
	what := fmt.Sprintf("cannot compare with %d flows over all paths", ends)
	if need := 2*ends + spareThreads; threads.Room < need {
		return verr.New(verr.Usage, what, fmt.Sprintf("they need %d threads, and %s", need, threads.Source),
			"choose fewer flows or fewer paths, or raise that limit")
	}
	if need := filesPerEnd*ends + spareFiles; files.Room < need {
		return verr.New(verr.Usage, what, fmt.Sprintf("they need %d open files in one program, and %s", need, files.Source),
			"choose fewer flows or fewer paths, or raise that limit")
	}
	return nil
}
