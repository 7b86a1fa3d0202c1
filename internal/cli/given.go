package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/verr"
)

// given is text on the command line that is given once at most, and not empty: a
// variable of a shell that is not set would mean the machine itself.
type given struct{ to *string }

func (g given) String() string {
	if g.to == nil {
		return ""
	}
	return *g.to
}

func (g given) Set(text string) error {
	switch {
	case text == "":
		return errEmpty
	case *g.to != "":
		return fmt.Errorf("%s is given already, and a knob is turned on one thing at a time", *g.to)
	}
	*g.to = text
	return nil
}

func (g given) Type() string { return "string" }

var errEmpty = errors.New("it is empty; leave it out if nothing is meant")

// givenList is the same as often as somebody likes.
type givenList struct{ to *[]string }

func (g givenList) String() string {
	if g.to == nil {
		return ""
	}
	return strings.Join(*g.to, ",")
}

func (g givenList) Set(text string) error {
	if text == "" {
		return errEmpty
	}
	*g.to = append(*g.to, text)
	return nil
}

func (g givenList) Type() string { return "stringArray" }

// there says whether all that is named of a target is there: else nothing would be
// found on it, and that be taken for good news. Errors: exit code 2; or 3, where
// one may not look.
func there(t knob.Target) error {
	what := "cannot look at " + t.String()
	if t.Netns != "" || t.Device != "" {
		if _, err := t.Place(); err != nil {
			do := "see which devices there are with: ip link"
			switch {
			case t.Device == "":
				do = "see which namespaces there are with: ip netns ls"
			case t.Netns != "":
				do = "see which devices there are with: nsenter --net=" + t.Netns + " ip link"
			}
			return denied(what, verr.Wrap(verr.Usage, "cannot find "+knob.Target{Netns: t.Netns, Device: t.Device}.String(), err, do))
		}
	}
	if t.File != "" {
		if err := knob.CheckManifest(thisMachine(), t.File); err != nil {
			return denied(what, err)
		}
	}
	if t.Switch != "" {
		return denied(what, verr.Wrap(verr.Usage, "cannot ask the database of "+t.Switch, answers(t.Switch), "name the socket of one that runs, such as /run/openvswitch/db.sock"))
	}
	return nil
}

// answers tells whether somebody is behind the socket of a database.
func answers(socket string) error {
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
