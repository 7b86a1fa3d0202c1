package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// spread is a lab whose machines are on real hosts, with the network between these as its
// wire: each host builds its part.
type spread struct {
	cards        [2]lab.SharedCard
	net          netip.Prefix
	paths, names []string // of the arms that are built
	services     int
}

// Words of --dev that say how a card is shared.
const (
	byMACVLAN = "macvlan"
	byIPVLAN  = "ipvlan"
)

// deviceName is what the kernel takes, but for names that nobody gives.
var deviceName = regexp.MustCompile(`^[a-zA-Z0-9_.:@-]{1,15}$`)

// ParseCards reads the network cards of the machines: eth1; or a=eth1,b=ens5; and with
// either, ipvlan where the network allows a card one MAC. Errors are for a user.
func ParseCards(text string, machines []remote.Machine) (cards [2]lab.SharedCard, err error) {
	refuse := func(why string) ([2]lab.SharedCard, error) {
		return cards, verr.New(verr.Usage, fmt.Sprintf("cannot use --dev %q", text), why,
			"write --dev eth1, or a=eth1,b=ens5 by the machines' names; and ,ipvlan where the network allows a card one MAC")
	}
	ipvlan := false
	for part := range strings.SplitSeq(text, ",") {
		name, device, named := strings.Cut(part, "=")
		switch {
		case part == byMACVLAN || part == byIPVLAN:
			ipvlan = part == byIPVLAN
		case !named && deviceName.MatchString(name):
			meant := false
			for i := range cards {
				if cards[i].Device == "" {
					cards[i].Device, meant = name, true
				}
			}
			if !meant {
				return refuse(fmt.Sprintf("no machine is left that %s would be for", name))
			}
		case named && deviceName.MatchString(device):
			at := slices.IndexFunc(machines, func(m remote.Machine) bool { return m.Name == name })
			if at < 0 || at >= len(cards) {
				return refuse(fmt.Sprintf("there is no machine %q", name))
			}
			if cards[at].Device != "" {
				return refuse(fmt.Sprintf("machine %s has two devices", name))
			}
			cards[at].Device = device
		default:
			return refuse(fmt.Sprintf("%q is no name of a device", part))
		}
	}
	for i := range cards {
		if cards[i].Device == "" {
			return refuse("it names no device of machine " + machines[i].Name)
		}
		cards[i].IPVLAN = ipvlan
	}
	return cards, nil
}

// resolveSpread says what is built on the machines, and refuses what cannot be.
func (q Request) resolveSpread(arms []path.Arm) (s *spread, err error) {
	s = &spread{services: q.Services}
	if s.cards, err = ParseCards(q.Remote.Dev, q.Remote.Machines); err != nil {
		return nil, err
	}
	if s.net, err = lab.ParseNet(q.Remote.Net); err != nil {
		return nil, err
	}
	var built []path.Arm
	for i, arm := range arms {
		if !s.builds(arm) {
			continue
		}
		name := ""
		if i < len(q.Names) {
			name = q.Names[i]
		}
		built, s.paths, s.names = append(built, arm), append(s.paths, arm.Spec()), append(s.names, name)
	}
	return s, lab.CheckSpread(built, s.cards[0].IPVLAN)
}

// builds tells whether an arm is built, and not there already.
func (s *spread) builds(arm path.Arm) bool { return arm.Driver.Name != "attach" }

// Limits of the calls by which parts are raised and taken down.
var (
	raiseLimit    = host.ScaleTimeout(3 * time.Minute)
	takeDownLimit = host.ScaleTimeout(15 * time.Second)
)

// raise has both machines build their parts, at once.
func (b *remoteTestbed) raise(ctx context.Context, r *Resolved, s *Session) error {
	parts, err := b.planParts(ctx, r, s.host.LabName)
	if err != nil {
		return err
	}
	s.host.Watch.Say("building %s on %s of machine %s and %s of machine %s", strings.Join(r.spread.paths, ", "),
		parts[0].Card, r.machines[0].Name, parts[1].Card, r.machines[1].Name)
	ctx, cancel := context.WithTimeout(ctx, raiseLimit)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for i, part := range parts {
		g.Go(func() error {
			made := &lab.Lab{}
			if err := b.agents[i].Call(ctx, lab.CallRaise, part, made); err != nil {
				return onMachine(r.machines[i].Name, err)
			}
			b.parts[i] = made
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	s.wire = b.parts[0].Wire
	if b.parts[1].Wire != s.wire {
		s.wire += " to " + b.parts[1].Wire
	}
	for i := range s.machines {
		m := &b.parts[i].Machines[i]
		spaces := m.Namespaces()
		spaces[0].Name = m.Name + "/lab" // the machine's own network is another
		s.machines[i].namespaces = spaces
	}
	return nil
}

// planParts asks both machines for their cards, and says what each is to build.
func (b *remoteTestbed) planParts(ctx context.Context, r *Resolved, name string) (parts [2]lab.Part, err error) {
	var states [2]lab.CardState
	whole := lab.Part{Name: name, Paths: r.spread.paths, Names: r.spread.names, Services: r.spread.services, Net: r.spread.net}
	orElse(&whole.Name, "compare")
	for i, m := range r.machines {
		ask := lab.InspectCard{Card: r.spread.cards[i], Net: r.spread.net}
		if err := b.agents[i].Call(ctx, lab.CallInspectCard, ask, &states[i]); err != nil {
			return parts, onMachine(m.Name, err)
		}
		machine := lab.PartMachine{Name: m.Name}
		if r.spread.cards[i].IPVLAN {
			machine.MAC = states[i].MAC
		}
		whole.Machines = append(whole.Machines, machine)
	}
	whole.MTU = min(states[0].MTU, states[1].MTU)
	if _, err := rand.Read(whole.OUI[:]); err != nil {
		return parts, err
	}
	whole.OUI[0] = whole.OUI[0]&^3 | 2 // given by software, to one device
	for i := range parts {
		parts[i] = whole
		parts[i].Self, parts[i].Card = i, r.spread.cards[i]
	}
	return parts, nil
}

// onMachine says on which machine an error was.
func onMachine(name string, err error) error {
	var told *verr.Error
	if !errors.As(err, &told) {
		return fmt.Errorf("on machine %s: %w", name, err)
	}
	there := *told
	there.Summary += " on machine " + name
	return &there
}

// builtPath is the n-th of the paths that were built.
func (b *remoteTestbed) builtPath(s *spread, n int) testPath {
	client, server := b.parts[0], b.parts[1]
	from, to := client.Arms[n], server.Arms[n]
	arm := result.Arm{Name: from.Name, Path: from.Path, Options: from.Options, Overhead: from.Overhead, Versions: from.Versions,
		FromDevice: s.cards[0].Device, ToDevice: s.cards[1].Device}
	if arm.Versions == nil {
		arm.Versions = to.Versions
	} else {
		maps.Copy(arm.Versions, to.Versions)
	}
	p := newTestPath(arm, path.Ends{from.Ends[0], to.Ends[1]})
	p.ends.ClientNetns, p.ends.ServerNetns = crossed(client.Machines[0], arm.Name), crossed(server.Machines[1], arm.Name)
	if len(from.Pins) > 1 && len(to.Pins) > 1 {
		p.ends.ClientPins, p.ends.ServerPins = from.Pins[0], to.Pins[1]
	}
	return p
}

// partExit says which daemon of a path has exited on either machine.
func (b *remoteTestbed) partExit(path string) error {
	ctx, cancel := context.WithTimeout(context.Background(), takeDownLimit)
	defer cancel()
	for i, part := range b.parts {
		if part == nil {
			continue
		}
		var why string
		if err := b.agents[i].Call(ctx, lab.CallDaemonExit, path, &why); err == nil && why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// takeDown has both machines take down what they built, at once. One that is lost does so by
// itself.
func (b *remoteTestbed) takeDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), takeDownLimit)
	defer cancel()
	var g errgroup.Group
	for i, part := range b.parts {
		if part == nil {
			continue
		}
		g.Go(func() error {
			var done struct{}
			err := b.agents[i].Call(ctx, lab.CallTakeDown, done, &done)
			if agent.IsGone(err) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}
