package agent

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A call on a channel that was hung up on says why the agent is lost, and not that somebody
// cancelled it.
func TestCallError(t *testing.T) {
	c := &Client{machine: "n1"}
	closing := status.Error(codes.Canceled, "grpc: the client connection is closing")
	if err := c.callError(closing); IsGone(err) {
		t.Errorf("an agent that is there: %v", err)
	}
	c.lose(lostError("n1", "it did not answer"))
	if err := c.callError(closing); !IsGone(err) {
		t.Errorf("a lost one: %v", err)
	}
	if err := c.callError(nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}
