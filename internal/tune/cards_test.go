package tune_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// cardsFileEnv names a file that gets the matrix: go test shows nothing of what passes.
const cardsFileEnv = "VENTURI_TEST_CARDS"

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
	agenttest.UnderKernels(t, cardsKernel, cardsUnder)
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
	said, code := agenttest.Inside(t, vm.Config{Kernel: k, Memory: 1 << 10, NICs: nics, In: in}, []string{"-test.v", "-test.run=^TestCardsHere$"})
	if code != 0 {
		t.Errorf("it ended with code %d:\n%s", code, said)
	}
	text := matrix(t, k, said)
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
