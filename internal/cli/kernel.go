package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

func newKernel(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kernel",
		Short: "Fetch other kernels, and run commands under them",
		Long: `Measure under another kernel, in a virtual machine that sees this machine's files, with
"venturi compare --kernel 6.1" and the like. Kernels are fetched once and stored. They
are Debian's packages, unpacked but never installed.`,
		Example: `  venturi kernel fetch 6.1
  venturi compare --kernel 6.1 host geneve
  venturi kernel exec 6.1 -- uname -a`,
	}
	cmd.AddCommand(kernelFetch(env), kernelList(env), kernelExec(env), kernelRemove(env))
	return cmd
}

func kernelFetch(env *Env) *cobra.Command {
	var mirror string
	var newer bool
	cmd := &cobra.Command{
		Use:   "fetch [VERSION...]",
		Short: "Fetch Debian's kernel of a version",
		Long: fmt.Sprintf(`Fetch Debian's newest kernel of each VERSION, which is one of %s
(default: %s): downloads of 60 to 110 MB each. This machine's own package manager fetches
them from its usual sources and checks their signatures. They are stored in
/var/lib/venturi/kernels, for users other than root in ~/.local/share/venturi/kernels,
or in the folder that %s names.`, strings.Join(kernel.FetchableSeries(), ", "), kernel.Default, kernel.StoreVariable),
		Example: `  venturi kernel fetch
  venturi kernel fetch 5.10 6.1 6.12
  venturi kernel fetch 6.1 --newer`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = []string{kernel.Default}
			}
			for _, series := range args { // all of them, before the first is fetched
				if err := kernel.CheckFetch(series); err != nil {
					return err
				}
			}
			show := &display.FetchProgress{Out: env.Stderr, Terminal: display.IsTerminal(env.Stderr)}
			for _, series := range args {
				k, fresh, err := kernel.Fetch(cmd.Context(), kernel.FetchRequest{Series: series, Mirror: mirror, Newer: newer}, show.Step)
				show.End()
				switch {
				case err != nil:
					return err
				case fresh:
					sanitize.Fprintf(env.Stdout, "%s is here: %s\n", series, k.Release)
				case newer:
					sanitize.Fprintf(env.Stdout, "%s is here already, and there is no newer one: %s\n", series, k.Release)
				default:
					sanitize.Fprintf(env.Stdout, "%s is here already: %s (--newer looks for a newer one)\n", series, k.Release)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&mirror, "mirror", "", "address of the Debian mirror to fetch from (default: that of this machine's packages)")
	cmd.Flags().BoolVar(&newer, "newer", false, "look for a newer one even if one is stored")
	return cmd
}

func kernelList(env *Env) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the stored kernels",
		Long:    "List the stored kernels, the newest first, and which one --kernel VERSION selects.",
		Example: "  venturi kernel ls\n  venturi kernel ls --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			kept, err := kernel.List()
			if err != nil {
				return err
			}
			list := []display.StoredKernel{}
			for _, k := range kept {
				line := display.StoredKernel{Release: k.Release, Series: k.Series(), Use: []string{k.Release},
					Modules: k.Modules != "", Source: k.Source, Image: k.Image}
				if line.Bytes, line.Fetched, err = k.StoredSize(); err != nil {
					return err
				}
				if !slices.ContainsFunc(list, func(newer display.StoredKernel) bool { return newer.Series == line.Series }) {
					line.Use = append(line.Use, line.Series)
				}
				list = append(list, line)
			}
			if asJSON {
				return display.PrintJSON(env.Stdout, list)
			}
			return display.PrintKernels(env.Stdout, list)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

func kernelRemove(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "rm RELEASE...",
		Short:   "Remove stored kernels",
		Long:    "Remove stored kernels, named by their full releases, as \"venturi kernel ls\" lists them.",
		Example: "  venturi kernel rm 6.1.0-56-amd64",
		Args:    cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return verr.New(verr.Usage, "cannot remove a kernel", "none is named", "list them with: venturi kernel ls")
			}
			for _, release := range args { // all of them, before the first is removed
				if err := kernel.CheckRemove(release); err != nil {
					return err
				}
			}
			var failed []error
			for _, release := range args {
				err := kernel.Remove(release)
				if err == nil {
					sanitize.Fprintf(env.Stdout, "removed %s\n", release)
				}
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		},
	}
}

func kernelExec(env *Env) *cobra.Command {
	var (
		u      kernelFlag
		config vm.Config
		nics   cards
	)
	cmd := &cobra.Command{
		Use:   "exec VERSION|FILE [FLAG...] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command under another kernel",
		Long: `Start a virtual machine with a stored kernel or a bzImage FILE, and run a command in it
as root: in the same folder, with the same environment and this machine's files. What the
command writes is lost when the virtual machine ends, except in a folder of --write. It
does not need root; without it, the command sees only the files that you may read.

With --nic the virtual machine has unconnected network cards, eth0 and so on, to try a
card's driver. This needs root.

The exit code is that of the command.`,
		Example: `  venturi kernel exec 6.1 -- uname -a
  venturi kernel exec 6.12 --write out -- ./try.sh out
  venturi kernel exec 6.1 --nic e1000e --nic virtio -- venturi knob ls --dev eth0
  venturi kernel exec ./arch/x86/boot/bzImage -- bash
  go test -exec "venturi kernel exec 6.1 --" ./...`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, command, err := execWords(cmd, args)
			if err != nil || len(command) == 0 {
				return err
			}
			return runUnder(cmd.Context(), env, u, config, nics, spec, command)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's options are its own
	f.Var(&u.accel, "accel", "what runs the virtual machine: auto, kvm, or tcg (emulation)")
	f.IntVar(&config.CPUs, "cpus", 0, "CPUs of the virtual machine (default: this machine's, but at most 64, emulated 8)")
	f.IntVar(&config.Memory, "memory", 0, "memory of the virtual machine, MiB (default: enough for a lab)")
	f.Var(&nics, "nic", "add a network card of this model: virtio, e1000e or vmxnet3; may be given several times")
	f.StringArrayVar(&config.Writable, "write", nil, "let the command write to this folder of the host; may be given several times")
	return cmd
}
