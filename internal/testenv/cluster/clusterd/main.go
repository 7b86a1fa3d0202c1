// Command clusterd raises and holds a Kubernetes cluster for tests. It is also every
// process of that cluster which is not Kubernetes' own, and the program of its containers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/testenv/cluster"
)

const usage = `usage: clusterd COMMAND

  up [flags] [IMAGE.tar...]       raise a cluster and print its kubeconfig (-h: flags)
  run [flags] [IMAGE.tar...] -- COMMAND...
                                  raise one for a command, and end it with that
  fetch                           build and download what clusters are made of
  down [-name NAME]               end it
  enter [-name NAME] NODE COMMAND...
                                  run a command on a node
  import [-name NAME] IMAGE.tar...
                                  load images into each node
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	args := os.Args[1:]
	if os.Getenv("CNI_COMMAND") != "" {
		args = []string{"cni"}
	}
	err := run(ctx, args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "clusterd:", err)
		os.Exit(1)
	}
}

// commands are for people, and roles for the cluster itself.
var commands = map[string]func(context.Context, []string) error{
	"up": up, "run": runCommand, "down": down, "fetch": fetch, "enter": enter, "import": load, // for people
	"hold": hold, "keeper": keeper, "node": node, "cni": cni, // parts of the cluster
	"pause": pause, "serve": serve, "get": get, // programs of containers
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		args = []string{"pause"}
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprint(os.Stderr, usage)
		return fmt.Errorf("there is no command %q", args[0])
	}
	return command(ctx, args[1:])
}

// parse reads the flags that name and make a cluster, and gives what follows them.
func parse(args []string) (o cluster.Options, lifeline bool, rest []string, err error) {
	flags := flag.NewFlagSet("clusterd", flag.ContinueOnError)
	flags.StringVar(&o.Name, "name", cluster.DefaultName, "name of the cluster")
	flags.IntVar(&o.Nodes, "nodes", 2, "number of nodes")
	flags.StringVar(&o.Backend, "backend", cluster.Backends[0], "network of the pods: "+strings.Join(cluster.Backends, " or "))
	flags.StringVar(&o.ProxyMode, "proxy-mode", cluster.ProxyModes[0], "mode of kube-proxy: "+strings.Join(cluster.ProxyModes, " or "))
	flags.BoolVar(&lifeline, "lifeline", false, "end when standard input ends")
	err = flags.Parse(args)
	return o, lifeline, flags.Args(), err
}

// parseImages is parse for commands that take images: their files become absolute.
func parseImages(args []string) (o cluster.Options, lifeline bool, err error) {
	o, lifeline, rest, err := parse(args)
	for _, tar := range rest {
		file, absErr := filepath.Abs(tar)
		o.Images, err = append(o.Images, file), errors.Join(err, absErr)
	}
	return o, lifeline, err
}

// start raises a cluster, and says so.
func start(ctx context.Context, args []string, lifeline *os.File) (*cluster.Raised, error) {
	o, _, err := parseImages(args)
	if err != nil {
		return nil, err
	}
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Start(ctx, exe, o, lifeline, os.Stderr)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "up in %.1f s; logs are in %s\n", c.Ready.Seconds(), c.Logs)
	return c, nil
}

func up(ctx context.Context, args []string) error {
	c, err := start(ctx, args, nil)
	if err != nil {
		return err
	}
	fmt.Println(c.Kubeconfig)
	return nil
}

func fetch(ctx context.Context, _ []string) error {
	return cluster.Fetch(ctx, func(text string) { fmt.Fprintln(os.Stderr, text) })
}

func down(_ context.Context, args []string) error {
	o, _, _, err := parse(args)
	if err != nil {
		return err
	}
	return cluster.Down(o.Name)
}

// runCommand runs a command that knows the cluster by its environment. The cluster ends with
// the command, and with this process however that ends.
func runCommand(ctx context.Context, args []string) (err error) {
	dashes := slices.Index(args, "--")
	if dashes < 0 || dashes == len(args)-1 {
		return errors.New("give -- and a command")
	}
	lifeline, hold, err := os.Pipe()
	if err != nil {
		return err
	}
	defer hold.Close()
	c, err := start(ctx, args[:dashes], lifeline)
	lifeline.Close()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Down(c.Name)) }()
	command := exec.CommandContext(ctx, args[dashes+1], args[dashes+2:]...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = time.Minute
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, cluster.NameVariable+"="+c.Name)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	return command.Run()
}

func enter(ctx context.Context, args []string) error {
	o, _, rest, err := parse(args)
	if err != nil {
		return err
	}
	c, err := cluster.Find(o.Name)
	if err != nil {
		return err
	}
	for _, n := range c.Nodes {
		if len(rest) > 1 && n.Name == rest[0] {
			cmd := n.Enter(ctx, rest[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
			return cmd.Run()
		}
	}
	return fmt.Errorf("give one of the cluster's %d nodes, such as n1, and a command", len(c.Nodes))
}

func load(ctx context.Context, args []string) error {
	o, _, err := parseImages(args)
	if err != nil {
		return err
	}
	c, err := cluster.Find(o.Name)
	if err != nil {
		return err
	}
	for _, tar := range o.Images {
		if err := c.Import(ctx, tar); err != nil {
			return err
		}
	}
	return nil
}

func hold(ctx context.Context, args []string) error {
	o, lifeline, err := parseImages(args)
	if err != nil {
		return err
	}
	var end io.Reader
	if lifeline {
		end = os.Stdin
	}
	return cluster.Hold(ctx, o, end, func(text string) { fmt.Println(text) })
}

func keeper(_ context.Context, args []string) error { return cluster.Keep(args[0]) }

func node(_ context.Context, args []string) error {
	i, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	return cluster.RunNode(args[0], i)
}

func cni(context.Context, []string) error { return cluster.CalicoCNI(os.Stdin, os.Stdout) }

func pause(context.Context, []string) error { return cluster.Pause() }

func serve(_ context.Context, args []string) error { return cluster.Serve(args[0]) }

func get(ctx context.Context, args []string) error { return cluster.Get(ctx, os.Stdout, args[0]) }
