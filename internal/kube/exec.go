package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// Stream is a program in a container, and its input and output. The program ends when the
// stream is closed.
type Stream struct {
	net.Conn
	stderr remote.Tail
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of the stream, once it has ended
}

// exec runs a command in the first container of a pod: over WebSocket, or over SPDY where
// the server is older than 1.30.
func (c *Client) exec(namespace, pod string, command []string) (*Stream, error) {
	options := &corev1.PodExecOptions{Command: command, Stdin: true, Stdout: true, Stderr: true}
	url := c.request(c.rest[""].Post(), pods, namespace).Name(pod).SubResource("exec").VersionedParams(options, c.params).URL()
	socket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", url.String())
	if err != nil {
		return nil, err
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", url)
	if err != nil {
		return nil, err
	}
	executor, err := remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return nil, err
	}
	mine, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	s := &Stream{Conn: mine, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: theirs, Stdout: theirs, Stderr: &s.stderr})
		_ = theirs.Close()
	}()
	return s, nil
}

// startLimit bounds the time from the request until the agent is ready.
const startLimit = 30 * time.Second

// agent starts the agent in a pod, and returns when it is ready to be spoken to. machine
// is what to call the place where it is.
func (c *Client) agent(ctx context.Context, namespace, pod, machine string, flags ...string) (*Stream, error) {
	s, err := c.exec(namespace, pod, append([]string{program, "agent", "--stdio", "--unlocked", "--machine", machine}, flags...))
	if err != nil {
		return nil, c.failure("create", podsExec, namespace, err)
	}
	_ = s.SetDeadline(time.Now().Add(startLimit))
	unhook := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	err = remote.Await(s.Conn)
	if !unhook() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		return s, s.SetDeadline(time.Time{})
	}
	said := s.lastWords()
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if said != nil {
		err = said
	}
	if strings.Contains(err.Error(), "forbidden") {
		return nil, verr.Wrap(verr.Permission, "cannot create pods/exec in namespace "+namespace, err, "ask an administrator to apply what `kubectl venturi rbac` prints for this command")
	}
	return nil, verr.Wrap(verr.Failed, "cannot start the agent in pod "+namespace+"/"+pod, err,
		"see `kubectl logs -n "+namespace+" "+pod+"`, and check that the image has this version of venturi")
}

// Kill ends the stream at once: nothing answers any more.
func (s *Stream) Kill() { s.cancel() }

// Close ends the program.
func (s *Stream) Close() error {
	err := s.Conn.Close()
	select {
	case <-s.ended: // the other side has seen the end of its input
	case <-time.After(time.Second):
		s.cancel()
	}
	s.cancel()
	return err
}

// lastWords ends the stream, and gives why it ended, or what the program said last.
func (s *Stream) lastWords() error {
	_ = s.Close()
	select {
	case <-s.ended:
	case <-time.After(time.Second):
		return nil
	}
	said := s.stderr.String()
	switch {
	case s.err != nil && said != "":
		return fmt.Errorf("%w: %s", s.err, said)
	case said != "":
		return errors.New(said)
	}
	return s.err
}
