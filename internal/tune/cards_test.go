package tune_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/vm"
)

// cardsFileEnv names a file that gets the matrix: go test shows nothing of what passes.
const cardsFileEnv = "VENTURI_TEST_CARDS"

// cardsLimit is how long the machine may take to start, or be silent: it is
// emulated, and others may want the processors too.
const cardsLimit = 10 * time.Minute

// cardsKernel is one whose drivers have most of what the cards can.
const cardsKernel = "6.1"

// drivers are those of the cards that qemu plays: of real machines, and of most
// virtual ones.
var drivers = []string{"virtio_net", "e1000e", "vmxnet3"}

// Knobs of devices must work on drivers that forget, round and refuse, so they
// are turned and undone on every card that can be had without one. A card on
// which no knob was turned fails the test.
func TestCards(t *testing.T) {
	testenv.Root(t)
	testenv.NeedsLong(t)
	agenttest.UnderKernels(t, cardsKernel, cardsUnder)
}

func cardsUnder(t *testing.T, k kernel.Kernel) {
	nics, in, err := vm.Cards(append(slices.Clone(vm.Models), vm.Virtio))
	testenv.Must(t, err)
	t.Cleanup(in.Close)
	c := vm.Config{Kernel: k, Memory: 1 << 10, NICs: nics, In: in, StartLimit: cardsLimit, SilenceLimit: cardsLimit}
	said, code := agenttest.RunInGuest(t, c, []string{"-test.v", "-test.run=^TestCardsHere$"})
	if code != 0 {
		t.Errorf("it ended with code %d:\n%s", code, said)
	}
	text := matrix(t, k, said)
	t.Log("\n" + text)
	if file := os.Getenv(cardsFileEnv); file != "" {
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		testenv.Must(t, err)
		_, err = f.WriteString(text)
		testenv.Must(t, errors.Join(err, f.Close()))
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
	return slices.DeleteFunc(table.All(), func(e knob.Entry) bool { return e.Scope != knob.ScopeDevice || e.Knob == nil })
}
