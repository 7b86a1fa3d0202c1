package agent

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/verr"
)

// withDetails puts the parts of a call's error into its status, where
// fromStatus finds them.
func withDetails(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	reply, err := handle(ctx, req)
	if err != nil {
		return nil, detailed(err)
	}
	return reply, nil
}

// streamWithDetails does the same for a call that is a stream.
func streamWithDetails(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return detailed(handle(srv, stream))
}

func detailed(err error) error {
	if err == nil || errors.Is(err, errEnding) {
		return err
	}
	st, detailErr := status.New(codes.Unknown, err.Error()).WithDetails(failureToPB(err))
	if detailErr != nil {
		return err
	}
	return st.Err()
}

// fromStatus turns what a call gave into the error that the agent meant. An
// error without details is not the agent's: the channel itself broke.
func fromStatus(machine string, err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	for _, d := range st.Details() {
		if f, ok := d.(*agentpb.Failure); ok {
			return failureFromPB(f)
		}
	}
	switch st.Code() {
	case codes.Canceled:
		return context.Canceled
	case codes.DeadlineExceeded:
		return context.DeadlineExceeded
	case codes.Aborted:
		return lostError(machine, st.Message())
	case codes.Unavailable:
		return lostError(machine, "its process ended or does not answer ("+st.Message()+")")
	case codes.Unimplemented:
		return verr.New(verr.Failed, "cannot use the agent of "+machine, "it is another version of this program ("+st.Message()+")",
			"end it with: venturi lab down; then run the command again")
	default:
		return verr.Wrap(verr.Failed, "cannot use the agent of "+machine, errors.New(st.Message()), "run the command again")
	}
}

func lostError(machine, why string) *verr.Error {
	return &verr.Error{
		Summary: "lost the agent of " + machine, Reason: why,
		Hint: "run the command again; if it happens again, look in the kernel log (dmesg) for what killed it", Code: verr.Failed,
		Err: errGone,
	}
}

// errEnding is the error of a call that an agent gets while it ends. It has no details: to the
// caller, the agent is gone.
var errEnding = status.Error(codes.Aborted, "it is ending")

// errGone is under every error that means that the agent's process is gone.
var errGone = errors.New("agent is gone")

// IsGone reports whether err means that the agent's process has ended.
func IsGone(err error) bool { return errors.Is(err, errGone) }
