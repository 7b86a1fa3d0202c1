package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/k8s"
	"github.com/venturi-net/venturi/internal/verr"
)

// onceFlag is a string flag that may be given at most once and not empty: a
// variable of a shell that is not set would mean the machine itself.
type onceFlag struct{ to *string }

func (g onceFlag) String() string {
	if g.to == nil {
		return ""
	}
	return *g.to
}

func (g onceFlag) Set(text string) error {
	switch {
	case text == "":
		return errEmpty
	case *g.to != "":
		return fmt.Errorf("it is given already, as %q, and may be given only once", *g.to)
	}
	*g.to = text
	return nil
}

func (g onceFlag) Type() string { return "string" }

var errEmpty = errors.New("it is empty")

// repeatableFlag is a string flag that may be repeated. Empty values are refused.
type repeatableFlag struct{ to *[]string }

func (g repeatableFlag) String() string {
	if g.to == nil {
		return ""
	}
	return strings.Join(*g.to, ",")
}

func (g repeatableFlag) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	*g.to = append(*g.to, text)
	return nil
}

func (g repeatableFlag) Type() string { return "stringArray" }

// checkTarget checks that everything a target names exists: otherwise nothing would be
// found on it, and that be taken for good news. Errors: exit code 2; or 3, where
// one may not look.
func checkTarget(t knob.Target) error {
	what := "cannot look at " + t.String()
	if t.Netns != "" || t.Device != "" {
		if _, err := t.Scope(); err != nil {
			do := "list devices with: ip link"
			switch {
			case t.Device == "":
				do = "see which namespaces there are with: ip netns ls"
			case t.Netns != "":
				do = "see which devices there are with: nsenter --net=" + t.Netns + " ip link"
			}
			return permissionError(what, verr.Wrap(verr.Usage, "cannot find "+knob.Target{Netns: t.Netns, Device: t.Device}.String(), err, do))
		}
	}
	if t.File != "" {
		if err := k8s.CheckManifest(thisMachine(), t.File); err != nil {
			return permissionError(what, err)
		}
	}
	if t.Switch != "" {
		return permissionError(what, verr.Wrap(verr.Usage, "cannot ask the database of "+t.Switch, pingSocket(t.Switch), "give the socket of a running ovsdb-server, such as /run/openvswitch/db.sock"))
	}
	return nil
}

// pingSocket connects to the socket of a database, to see whether a server listens.
func pingSocket(socket string) error {
	network, address := "unix", strings.TrimPrefix(socket, "unix:")
	if rest, found := strings.CutPrefix(socket, "tcp:"); found {
		network, address = "tcp", rest
	} else if strings.HasPrefix(socket, "ssl:") {
		return nil // it is more than a socket; the knobs say what becomes of it
	}
	c, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
