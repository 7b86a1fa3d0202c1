package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// dialTimeout is how long Dial waits for an agent that is still starting,
// when ctx does not say.
var dialTimeout = host.ScaleTimeout(10 * time.Second)

// shortCall bounds a call that does no measuring, beside what it takes for each
// end: see forEnds.
var shortCall = host.ScaleTimeout(30 * time.Second)

// perEnd is how long it may take to open, greet or close one flow's end: far
// more than it does, also on an emulated CPU that hundreds of them share.
const perEnd = 20 * time.Millisecond

// forEnds is how much longer a call may take for the ends that it opens or closes.
func forEnds(ends int) time.Duration { return host.ScaleTimeout(time.Duration(ends) * perEnd) }

// endsOf counts the ends that a plan has on one side.
func endsOf(p load.Plan) int { return len(p.Arms) * p.Flows }

// Client is the controller's end of the channel to one agent. Its methods may
// be called at the same time.
type Client struct {
	conn         *grpc.ClientConn
	api          agentpb.AgentClient
	machine      string
	cpus         []int
	liveness     *Liveness                  // of the client's machine; nil: a dead agent shows at once
	lost         atomic.Pointer[verr.Error] // why nothing more is to be had of it; nil: it is there
	beatsEnded   chan struct{}              // closed when the agent is heard no more; nil: it is not watched
	kill         func()                     // ends what carries the channel at once
	clockOffset  time.Duration              // by which its clock is ahead of ours
	serves       atomic.Int64               // how many ends the last series that it serves has
	refused      atomic.Int64               // see Refused
	timeoutScale time.Duration              // by which limits of time are multiplied: its CPU may be emulated
}

// Dial waits until the agent on the socket answers, and checks that it speaks
// our language.
func Dial(ctx context.Context, socket string) (*Client, error) {
	return dial(ctx, socket, "unix:"+socket, "end it with: venturi lab down; then run the command again",
		// An agent starts in milliseconds: gRPC's second between tries is too long.
		// Nor does gRPC give an attempt longer than such a pause unless told: on an
		// emulated CPU an agent takes longer to greet.
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: dialTimeout, Backoff: backoff.Config{
			BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 100 * time.Millisecond}}))
}

// dial is Dial by any way to the agent; otherVersion says what to do about one that speaks another language.
func dial(ctx context.Context, socket, target, otherVersion string, options ...grpc.DialOption) (*Client, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, dialTimeout)
		defer cancel()
	}
	conn, err := grpc.NewClient(target, append(options,
		// The socket's permissions and the peer check are the credentials, or those of ssh.
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))...)
	if err != nil {
		return nil, fmt.Errorf("dial agent on %s: %w", socket, err)
	}
	c := &Client{conn: conn, api: agentpb.NewAgentClient(conn), machine: socket, kill: func() {}}
	asked := time.Now()
	v, err := c.api.Version(ctx, &agentpb.VersionRequest{}, grpc.WaitForReady(true))
	if err != nil {
		conn.Close()
		return nil, dialError(ctx, socket, err)
	}
	if v.GetProtocol() != Protocol {
		conn.Close()
		return nil, verr.New(verr.Failed, "cannot use the agent of "+v.GetMachine(),
			fmt.Sprintf("it is version %s of this program and speaks protocol %d, not %d", v.GetVenturi(), v.GetProtocol(), Protocol),
			otherVersion)
	}
	c.machine = v.GetMachine()
	c.setClock(asked, v)
	c.timeoutScale = max(time.Duration(v.GetTimeoutScale()), host.ScaleTimeout(1)) / host.ScaleTimeout(1)
	c.cpus = convert(v.GetCpus(), toInt)
	return c, nil
}

// setClock takes the agent's clock to be read in the middle of a call.
func (c *Client) setClock(asked time.Time, v *agentpb.VersionReply) {
	if v.GetNow() != 0 {
		c.clockOffset = time.Unix(0, v.GetNow()).Sub(asked.Add(time.Since(asked) / 2))
	}
}

func dialError(ctx context.Context, socket string, err error) error {
	why := fromStatus(socket, err)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStreamEnded):
		why = cause
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(why, context.DeadlineExceeded):
		why = errors.New("it did not answer in time")
	}
	return verr.Wrap(verr.Failed, "cannot reach the agent on "+socket, why,
		"run the command again; the agent's own messages say why it did not start")
}

// Machine is the name of the agent's machine.
func (c *Client) Machine() string { return c.machine }

// ClockOffset is how far the agent's clock is ahead of ours, give or take the time that a
// call takes.
func (c *Client) ClockOffset() time.Duration { return c.clockOffset }

// CPUs are those that the agent may run on.
func (c *Client) CPUs() []int { return c.cpus }

// Close hangs up. The agent goes on.
func (c *Client) Close() error {
	err := c.conn.Close()
	if c.lost.Load() != nil {
		return nil // it was hung up on before
	}
	return err
}

// callError is the error of a call: why the agent is lost, where it is, which the channel that
// was hung up on does not say.
func (c *Client) callError(err error) error {
	if err == nil {
		return nil
	}
	told := fromStatus(c.machine, err)
	if IsGone(told) {
		c.awaitReason()
	}
	if why := c.lost.Load(); why != nil {
		return why
	}
	return told
}

// awaitReason waits for the end of the agent's beats, which says why it ended. It is under way
// when a call shows that the agent has ended, and may be read after that call's reply.
func (c *Client) awaitReason() {
	if c.beatsEnded == nil || c.lost.Load() != nil { // the first reason counts
		return
	}
	select {
	case <-c.beatsEnded:
	case <-time.After(c.timeoutScale * answerBy):
	}
}

// Facts reads the machine, with the devices of some namespaces beside its own. missing says
// what could not be read.
func (c *Client) Facts(ctx context.Context, spaces []host.Named) (facts result.Facts, missing []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeoutScale*shortCall)
	defer cancel()
	reply, err := c.api.Facts(ctx, &agentpb.FactsRequest{Spaces: convert(spaces, spaceToPB)})
	if err != nil {
		return result.Facts{}, nil, c.callError(err)
	}
	if err := json.Unmarshal(reply.GetFacts(), &facts); err != nil {
		return result.Facts{}, nil, fmt.Errorf("decode facts of %s: %w", c.machine, err)
	}
	return facts, reply.GetMissing(), nil
}

// Serve opens the passive ends of a series, with these meters beside it, and
// gives the arms whose ends could not be opened, each with the reason. The agent
// holds the others until Finish.
func (c *Client) Serve(ctx context.Context, plan load.Plan, meters []string) (shut map[int]error, err error) {
	p, err := planToPB(plan)
	if err != nil {
		return nil, err
	}
	c.serves.Store(int64(endsOf(plan)))
	ctx, cancel := context.WithTimeout(ctx, c.timeoutScale*(shortCall+forEnds(endsOf(plan))))
	defer cancel()
	reply, err := c.api.Serve(ctx, &agentpb.SeriesRequest{Plan: p, Meters: meters})
	if err != nil {
		return nil, c.callError(err)
	}
	shut = map[int]error{}
	for arm, why := range reply.GetShut() {
		shut[int(arm)] = failureFromPB(why)
	}
	return shut, nil
}

// Finish closes them, and gives the meters' sums per arm with Cell and Series
// left to the caller; they are there even if an end did not close as it should.
// It works after ctx ended too: to clean up is the point.
func (c *Client) Finish(ctx context.Context, token uint64) ([]result.Meter, error) {
	return c.finish(context.WithoutCancel(ctx), token, shortCall)
}

// finish is Finish with a limit of its own, beside that for the ends.
func (c *Client) finish(ctx context.Context, token uint64, limit time.Duration) ([]result.Meter, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeoutScale*(limit+forEnds(int(c.serves.Load()))))
	defer cancel()
	reply, err := c.api.Finish(ctx, &agentpb.FinishRequest{Token: token})
	if err != nil {
		return nil, c.callError(err)
	}
	c.refused.Add(reply.GetRefused())
	return convert(reply.GetMeters(), meterFromPB), failureFromPB(reply.GetFailure())
}

// Refused is how many connections and datagrams came to the data ports of the series that
// were finished, and were not theirs.
func (c *Client) Refused() int64 { return c.refused.Load() }

// Run runs the active ends of a series and waits for its end; the meters are
// as those of Finish. When ctx ends, or the agent does, it returns what was
// measured until the next slice boundary, with the error of ctx or
// context.Canceled. Nothing is sent to the agent while slices run.
func (c *Client) Run(ctx context.Context, plan load.Plan, meters []string) ([]load.SliceResult, []result.Meter, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	p, err := planToPB(plan)
	if err != nil {
		return nil, nil, err
	}
	// The call outlives ctx: to cancel it would throw the slices away.
	call, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	unhook := context.AfterFunc(ctx, func() { c.endRun(call, abandon, plan) })
	defer unhook()
	defer c.liveness.begin(call, plan)()
	if why := c.LossReason(); why != nil {
		return nil, nil, why
	}
	reply, err := c.api.Run(call, &agentpb.SeriesRequest{Plan: p, Meters: meters})
	if err != nil {
		err = c.callError(err)
		if ctx.Err() != nil && !IsGone(err) {
			err = ctx.Err()
		}
		return nil, nil, err
	}
	slices, sums := convert(reply.GetSlices(), sliceFromPB), convert(reply.GetMeters(), meterFromPB)
	if c.liveness != nil { // the agent's clock is not ours
		for i := range slices {
			slices[i].Start = slices[i].Start.Add(-c.clockOffset)
		}
	}
	if reply.GetStopped() && ctx.Err() == nil { // nobody here asked for it
		c.awaitReason()
	}
	lost := c.lost.Load()
	switch {
	case lost != nil: // of its arms, some may have failed before it was stopped
		return slices, sums, lost
	case reply.GetStopped() && ctx.Err() != nil:
		return slices, sums, ctx.Err()
	case reply.GetStopped():
		return slices, sums, context.Canceled
	}
	return slices, sums, failureFromPB(reply.GetFailure())
}

// endRun ends a series because the caller's context ended, and gives up on the
// call when the agent does not return from it. Until the call is over it asks
// again when the agent knows of no such series: Stop can overtake Run.
func (c *Client) endRun(call context.Context, abandon context.CancelFunc, plan load.Plan) {
	time.AfterFunc(2*plan.LongestSlice()+stopGrace, abandon)
	for call.Err() == nil {
		reply, err := c.api.Stop(call, &agentpb.StopRequest{Token: plan.Token})
		if err != nil {
			abandon()
			return
		}
		if reply.GetRunning() {
			return
		}
		_ = host.Sleep(call, 10*time.Millisecond)
	}
}

// Scale gives a limit of time for what happens on the agent's machine, whose CPU may be emulated.
func (c *Client) Scale(limit time.Duration) time.Duration { return c.timeoutScale * limit }
