package tune_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

const (
	cardsKernelsEnv = "VENTURI_TEST_KERNELS" // under which kernels the cards are tried: "5.10 6.1 6.12"
	cardsGuestEnv   = "VENTURI_TEST_GUEST"   // 1: this is the machine with the cards
	cardsFileEnv    = "VENTURI_TEST_CARDS"   // file that gets the matrix: go test shows nothing of what passes
)

// cardsKernel is one whose drivers have most of what the cards can.
const cardsKernel = "6.1"

// models are the cards that qemu plays: drivers of real machines, and the one of
// most virtual ones.
var models = []vm.NIC{
	{Model: vm.Virtio, Queues: 4, Hash: true},
	{Model: vm.E1000E},
	{Model: vm.VMXNet3},
}

// drivers are those of the models, in their order.
var drivers = []string{"virtio_net", "e1000e", "vmxnet3"}

// Knobs of devices must work on drivers that forget, round and refuse, so they
// are turned and undone on every card that can be had without one. A card on
// which no knob was turned fails the test.
func TestCards(t *testing.T) {
	testenv.Root(t)
	if os.Getenv(cardsGuestEnv) == "1" {
		t.Skip("is in a machine with the cards itself")
	}
	which := os.Getenv(cardsKernelsEnv)
	if which == "" {
		which = cardsKernel
	}
	for _, name := range strings.Fields(which) {
		t.Run(name, func(t *testing.T) {
			k, err := kernel.Find(name)
			if err != nil && !testenv.Required() {
				t.Skip(err)
			}
			must(t, err)
			cardsUnder(t, k)
		})
	}
}

func cardsUnder(t *testing.T, k kernel.Kernel) {
	w, err := change.Owned(testenv.Claim(t))
	must(t, err)
	in, err := w.Create(w.Name("cards"))
	must(t, err)
	t.Cleanup(in.Close)
	nics := slices.Clone(models)
	for i := range nics {
		nics[i].Tap, nics[i].MAC = fmt.Sprintf("tap%d", i), fmt.Sprintf("02:00:00:00:00:%02d", i+1)
		must(t, in.AddTap(change.Tap{Name: nics[i].Tap, MTU: 1500, Queues: nics[i].Queues}))
	}
	start := time.Now()
	g, err := vm.Start(t.Context(), vm.Config{Kernel: k, Program: testenv.Program(t), Root: true, CPUs: 2, Memory: 1 << 10, NICs: nics, In: in})
	must(t, err)
	defer func() { must(t, g.Close()) }()
	up := time.Now()
	dir, err := os.Getwd()
	must(t, err)
	var said bytes.Buffer
	var out io.Writer = &said
	if testing.Verbose() {
		out = io.MultiWriter(out, os.Stderr)
	}
	code, err := g.Run(t.Context(), vm.Command{
		Args: append(testenv.Program(t), "-test.v", "-test.run=^TestCardsHere$"), Dir: dir, Stdout: out, Stderr: out,
		Env: []string{"HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", cardsGuestEnv + "=1", "VENTURI_REQUIRE_ROOT=1"},
	})
	must(t, err)
	t.Logf("%s on %s: it started in %v, and the cards took %v", k.Release, g.Accel(), up.Sub(start).Round(time.Second/10), time.Since(up).Round(time.Second/10))
	if code != 0 {
		t.Errorf("it ended with code %d:\n%s", code, &said)
	}
	text := matrix(t, k, said.String())
	t.Log("\n" + text)
	if file := os.Getenv(cardsFileEnv); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		must(t, err)
		_, err = f.WriteString(text)
		must(t, errors.Join(err, f.Close()))
	}
}

// outcomePrefix begins a line that tells what became of a knob on a card.
const outcomePrefix = "outcome: "

// matrix tells which knob was turned on which card.
func matrix(t *testing.T, k kernel.Kernel, said string) string {
	book := map[string]string{}
	for line := range strings.Lines(said) {
		if _, rest, found := strings.Cut(line, outcomePrefix); found {
			card, rest, _ := strings.Cut(rest, " ")
			name, outcome, _ := strings.Cut(strings.TrimSpace(rest), " ")
			book[card+" "+name] = outcome
		}
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "knobs under %s\t%s\n", k.Release, strings.Join(drivers, "\t"))
	turned := map[string]int{}
	for _, e := range deviceKnobs() {
		fmt.Fprint(w, e.Name)
		for _, card := range drivers {
			outcome := book[card+" "+e.Name]
			fmt.Fprint(w, "\t", outcome)
			if strings.HasPrefix(outcome, "ran") {
				turned[card]++
			}
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // to memory
	for _, card := range drivers {
		if turned[card] == 0 {
			t.Errorf("no knob was turned on %s:\n%s", card, said)
		}
	}
	return out.String()
}

// deviceKnobs are the knobs that are turned on devices.
func deviceKnobs() []knob.Entry {
	return slices.DeleteFunc(knob.Table(), func(e knob.Entry) bool { return e.Scope != knob.OfDevice || e.Knob == nil })
}
