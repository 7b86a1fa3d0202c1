package cli

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// machinesFlag says between which machines is measured, in place of a lab's.
type machinesFlag struct {
	machines, ssh string
	dev, take     string
	network       string
	noCopy        bool
}

func (m *machinesFlag) flags(f *pflag.FlagSet) {
	f.StringVar(&m.machines, "machines", "", "measure between these machines over ssh instead of a lab's:\na=ssh://[USER@]HOST[:PORT][?addr=ADDRESS][&dev=DEVICE],b=..., or a file that lists them")
	f.StringVar(&m.dev, "dev", "", "build paths on these network cards of the --machines, in new namespaces that share the card\nby macvlan: eth1; or a=eth1,b=ens5; append ,ipvlan if the network allows one MAC address per card")
	f.StringVar(&m.take, "take", "", "build paths on these spare network cards of the --machines, which are moved into new namespaces\nand restored afterwards: eth1; or a=eth1,b=ens5")
	f.StringVar(&m.network, "net", "", "network of the machines' addresses on the cards of --dev or --take (default "+lab.WireNet().String()+")")
	f.StringVar(&m.ssh, "ssh", "ssh", "the ssh command for --machines, with its options")
	f.BoolVar(&m.noCopy, "no-copy", false, "run the venturi on the machines' PATH instead of copying one there")
}

// reachLimit is [remote.Options.Limit]. Tests of emulated machines give more.
var reachLimit time.Duration

// remote is what the flags ask for. Errors are for people.
func (m *machinesFlag) remote() (r compare.Remote, err error) {
	if m.machines == "" {
		if m.dev != "" || m.take != "" || m.network != "" {
			return r, verr.New(verr.Usage, "cannot build on network cards without --machines",
				"--dev, --take and --net say how to build paths between real machines", "name the machines with --machines, or leave --dev, --take and --net out")
		}
		return r, nil
	}
	if m.dev != "" && m.take != "" {
		return r, verr.New(verr.Usage, "cannot combine --dev and --take", "--dev shares network cards, and --take moves them into namespaces of Venturi", "give only one of them")
	}
	r.Dev, r.Take, r.Net = m.dev+m.take, m.take != "", m.network
	read := remote.ParseMachines
	if !strings.Contains(m.machines, "=") {
		read = remote.ReadMachines
	}
	if r.Machines, err = read(m.machines); err != nil {
		return r, err
	}
	program, err := program()
	if err != nil {
		return r, err
	}
	words := strings.Fields(m.ssh)
	if len(words) == 0 {
		return r, verr.New(verr.Usage, "cannot use --ssh", "it is empty", "leave it out, or give a command such as: ssh -F FILE")
	}
	r.Options = remote.Options{Program: program[0], NoCopy: m.noCopy, SSH: words, Limit: reachLimit}
	return r, nil
}
