package compare

import (
	"cmp"
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
	"github.com/venturi-net/venturi/internal/feature"
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
	cards        []lab.SharedCard // by machine; one without a device: it is not of the lab
	net          netip.Prefix
	paths, names []string // of the arms that are built
	services     int
}

// members lists the machines that are of the lab.
func (s *spread) members() (machines []int) {
	for i, card := range s.cards {
		if card.Device != "" {
			machines = append(machines, i)
		}
	}
	return machines
}

// memberOf is the number in the lab of a machine.
func (s *spread) memberOf(machine int) int { return slices.Index(s.members(), machine) }

// Words of --dev that say how a card is shared.
const (
	byMACVLAN = "macvlan"
	byIPVLAN  = "ipvlan"
)

// deviceName is what the kernel takes, but for names that nobody gives.
var deviceName = regexp.MustCompile(`^[a-zA-Z0-9_.:@-]{1,15}$`)

// parseCards reads the network cards of the machines: eth1; or a=eth1,b=ens5; and with
// either, where they are shared, ipvlan for networks that allow only one MAC address per
// card. Of two machines both need one. Errors are for a user.
func parseCards(text string, take bool, machines []remote.Machine) ([]lab.SharedCard, error) {
	flag, also := "--dev", "; add ,ipvlan where the network allows only one MAC address per card"
	if take {
		flag, also = "--take", ""
	}
	refuse := func(why string) ([]lab.SharedCard, error) {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot use %s %q", flag, text), why,
			fmt.Sprintf("write %[1]s eth1, or name a device for each machine: %[1]s a=eth1,b=ens5%[2]s", flag, also))
	}
	cards := make([]lab.SharedCard, len(machines))
	ipvlan := false
	for part := range strings.SplitSeq(text, ",") {
		name, device, named := strings.Cut(part, "=")
		switch {
		case part == byMACVLAN || part == byIPVLAN:
			if take {
				return refuse("the card itself is taken, and not shared by " + part)
			}
			ipvlan = part == byIPVLAN
		case !named && deviceName.MatchString(name):
			meant := false
			for i := range cards {
				if cards[i].Device == "" {
					cards[i].Device, meant = name, true
				}
			}
			if !meant {
				return refuse(fmt.Sprintf("there is no machine left for device %s", name))
			}
		case named && deviceName.MatchString(device):
			at := machineNamed(machines, name)
			if at < 0 {
				return refuse(fmt.Sprintf("there is no machine %q", name))
			}
			if cards[at].Device != "" {
				return refuse(fmt.Sprintf("machine %s has two devices", name))
			}
			cards[at].Device = device
		default:
			return refuse(fmt.Sprintf("%q is not a device name", part))
		}
	}
	for i := range cards {
		if cards[i].Device == "" && len(cards) == 2 {
			return refuse("it names no device of machine " + machines[i].Name)
		}
		cards[i].IPVLAN, cards[i].Take = ipvlan, take
	}
	return cards, nil
}

// resolveSpread says what is built on the machines, and refuses what cannot be.
func (q Request) resolveSpread(arms []path.Arm, between []betweenMachines) (s *spread, err error) {
	s = &spread{services: q.Services}
	if s.cards, err = parseCards(q.Remote.Dev, q.Remote.Take, q.Remote.Machines); err != nil {
		return nil, err
	}
	if s.net, err = lab.ParseNet(q.Remote.Net, len(s.members())); err != nil {
		return nil, err
	}
	var built []path.Arm
	for i, arm := range arms {
		if !s.builds(arm) {
			continue
		}
		for _, machine := range between[i].pair {
			name := q.Remote.Machines[machine].Name
			if s.cards[machine].Device == "" {
				return nil, verr.New(verr.Usage, "cannot build path "+arm.Name, "no network card of machine "+name+" is named",
					fmt.Sprintf("add %s=DEVICE to the cards, or name other machines, as %s:A,B", name, arm.Driver.Name))
			}
		}
		built, s.paths, s.names = append(built, arm), append(s.paths, arm.Spec()), append(s.names, between[i].name)
	}
	members := s.members()
	if len(members) == 0 {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot build paths on %q", q.Remote.Dev), "it names no network card of any machine",
			"name the cards, as eth1 or a=eth1,b=ens5; or leave the option out")
	}
	return s, lab.CheckSpread(built, s.cards[members[0]].IPVLAN)
}

// builds tells whether an arm is built, and not there already.
func (s *spread) builds(arm path.Arm) bool { return arm.Driver.Name != "attach" }

// Limits of the calls by which parts are raised and taken down.
var (
	raiseLimit    = host.ScaleTimeout(3 * time.Minute)
	takeDownLimit = host.ScaleTimeout(15 * time.Second)
)

// raise has all machines with a card build their parts, at once.
func (b *remoteTestbed) raise(ctx context.Context, r *Resolved, s *Session) error {
	parts, err := b.planParts(ctx, r, s.host.LabName)
	if err != nil {
		return err
	}
	if err := b.checkParts(ctx, r, parts); err != nil {
		return err
	}
	members := r.spread.members()
	var where []string
	for n, i := range members {
		where = append(where, fmt.Sprintf("%s of machine %s", parts[n].Card, r.machines[i].Name))
	}
	s.host.Watch.Say("building %s on %s", strings.Join(r.spread.paths, ", "), strings.Join(where, " and "))
	b.parts = make([]*lab.Lab, len(r.machines))
	limited, cancel := context.WithTimeout(ctx, b.scale(raiseLimit, members...))
	defer cancel()
	g, building := errgroup.WithContext(limited)
	for n, i := range members {
		g.Go(func() error {
			made := &lab.Lab{}
			if err := b.agents[i].Call(building, lab.CallRaise, parts[n], made); err != nil {
				return onMachine(r.machines[i].Name, err)
			}
			b.parts[i] = made
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var wires []string
	for n, i := range members {
		wires = append(wires, b.parts[i].Wire)
		spaces := b.parts[i].Machines[n].Namespaces()
		spaces[0].Name = r.machines[i].Name + "/lab" // the machine's own network is another
		s.machines[i].namespaces = spaces
	}
	s.wire = strings.Join(slices.Compact(wires), " to ")
	return nil
}

// scale gives a limit of time for what happens on machines, any of which may be emulated.
func (b *remoteTestbed) scale(limit time.Duration, machines ...int) time.Duration {
	longest := limit
	for _, i := range machines {
		longest = max(longest, b.agents[i].Scale(limit))
	}
	return longest
}

// partMachines lists the machines that have built their parts.
func (b *remoteTestbed) partMachines() (machines []int) {
	for i, part := range b.parts {
		if part != nil {
			machines = append(machines, i)
		}
	}
	return machines
}

// planParts asks all machines for their cards, and says what each is to build.
func (b *remoteTestbed) planParts(ctx context.Context, r *Resolved, name string) ([]lab.Part, error) {
	whole := lab.Part{Name: name, Paths: r.spread.paths, Names: r.spread.names, Services: r.spread.services, Net: r.spread.net}
	whole.Name = cmp.Or(whole.Name, "compare")
	members := r.spread.members()
	for _, i := range members {
		card := r.spread.cards[i]
		var state lab.CardState
		if err := b.agents[i].Call(ctx, lab.CallInspectCard, lab.InspectCard{Card: card, Net: r.spread.net}, &state); err != nil {
			return nil, onMachine(r.machines[i].Name, err)
		}
		machine := lab.PartMachine{Name: r.machines[i].Name}
		if card.IPVLAN || card.Take {
			machine.MAC = state.MAC
		}
		whole.Machines = append(whole.Machines, machine)
		if whole.MTU == 0 || state.MTU < whole.MTU {
			whole.MTU = state.MTU
		}
	}
	if _, err := rand.Read(whole.OUI[:]); err != nil {
		return nil, err
	}
	whole.OUI[0] = whole.OUI[0]&^3 | 2 // given by software, to one device
	parts := make([]lab.Part, len(members))
	for n, i := range members {
		parts[n] = whole
		parts[n].Self, parts[n].Card = n, r.spread.cards[i]
	}
	return parts, nil
}

// checkParts refuses what one of the machines cannot build, before any of them changes anything.
func (b *remoteTestbed) checkParts(ctx context.Context, r *Resolved, parts []lab.Part) error {
	for n, i := range r.spread.members() {
		var done struct{}
		if err := b.agents[i].Call(ctx, lab.CallCheck, parts[n], &done); err != nil {
			return onMachine(r.machines[i].Name, err)
		}
	}
	return nil
}

// onMachine says on which machine an error was, and that what it lacks is to be had there: this
// host's kernels are for labs.
func onMachine(name string, err error) error {
	var told *verr.Error
	if !errors.As(err, &told) {
		return fmt.Errorf("on machine %s: %w", name, err)
	}
	there := *told
	there.Summary += " on machine " + name
	if there.Code == verr.Missing {
		there.Hint = "on machine " + name + ", " + strings.TrimSuffix(told.Hint, feature.OtherKernel) + "; or leave out what needs it"
	}
	return &there
}

// builtPath is the n-th of the paths that were built, between two machines.
func (b *remoteTestbed) builtPath(s *spread, n int, between pair) testPath {
	client, server := b.parts[between[0]], b.parts[between[1]]
	nearEnd, farEnd := s.memberOf(between[0]), s.memberOf(between[1])
	from, to := client.Arms[n], server.Arms[n]
	arm := result.Arm{Name: from.Name, Path: from.Path, Options: from.Options, Overhead: from.Overhead, Versions: from.Versions,
		FromDevice: s.cards[between[0]].Device, ToDevice: s.cards[between[1]].Device}
	if arm.Versions == nil {
		arm.Versions = to.Versions
	} else {
		maps.Copy(arm.Versions, to.Versions)
	}
	if between != firstPair {
		arm.FromMachine, arm.ToMachine = client.Machines[nearEnd].Name, server.Machines[farEnd].Name
	}
	p := newTestPath(arm, path.Ends{from.Ends[nearEnd], to.Ends[farEnd]})
	p.ends.ClientNetns, p.ends.ServerNetns = crossed(client.Machines[nearEnd], arm.Name), crossed(server.Machines[farEnd], arm.Name)
	if len(from.Pins) > nearEnd && len(to.Pins) > farEnd {
		p.ends.ClientPins, p.ends.ServerPins = from.Pins[nearEnd], to.Pins[farEnd]
	}
	return p
}

// partExit says which daemon of a path has exited on either machine.
func (b *remoteTestbed) partExit(path string) error {
	machines := b.partMachines()
	ctx, cancel := context.WithTimeout(context.Background(), b.scale(takeDownLimit, machines...))
	defer cancel()
	for _, i := range machines {
		var why string
		if err := b.agents[i].Call(ctx, lab.CallDaemonExit, path, &why); err == nil && why != "" {
			return errors.New(why)
		}
	}
	return nil
}

// takeDown has all machines take down what they built, at once. One that is lost does so by
// itself.
func (b *remoteTestbed) takeDown() error {
	machines := b.partMachines()
	ctx, cancel := context.WithTimeout(context.Background(), b.scale(takeDownLimit, machines...))
	defer cancel()
	var g errgroup.Group
	for _, i := range machines {
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
