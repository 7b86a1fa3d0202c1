package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// Stdio is the agent behind a stream that ssh carries: it serves on its standard input and
// output until either ends. Whoever may start it may command it. folder, if not empty, holds
// the copy of this program, and is removed.
func Stdio(ctx context.Context, in io.Reader, out io.Writer, folder string, o Options) error {
	l, err := remote.Stdio(in, out, folder)
	if err != nil {
		return verr.Wrap(verr.Failed, "cannot start the agent of "+o.Machine, err, "run the command again")
	}
	return Serve(ctx, l, o)
}

// errStreamEnded is why nobody can be reached over a stream any more.
var errStreamEnded = errors.New("the connection to it has ended")

// DialStream is [Dial] over a stream, which it takes over. machine is what the user
// calls the other side.
func DialStream(ctx context.Context, stream net.Conn, machine string) (*Client, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	once := make(chan net.Conn, 1)
	once <- stream
	c, err := dial(ctx, machine, "passthrough:///"+machine, "install the same version of venturi there, or leave out --no-copy, so that it is copied",
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) {
			select {
			case conn := <-once:
				return conn, nil
			default:
				cancel(errStreamEnded) // a stream that broke is not made again
				return nil, net.ErrClosed
			}
		}))
	if err != nil {
		return nil, err
	}
	if s, ok := stream.(interface{ Kill() }); ok {
		c.kill = s.Kill
	}
	asked := time.Now() // the first call was also that of greeting: it says less of the clock
	if v, err := c.api.Version(ctx, &agentpb.VersionRequest{}); err == nil {
		c.setClock(asked, v)
	}
	return c, nil
}
