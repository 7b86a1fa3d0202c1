package node_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{"enable": enable, "shadow": compare})
}

// enable is a process that enables the fast path of the namespace that it is in: FOLDER TRIAL, and
// "filters" if its programs are to be tc filters, as on older kernels, "shadow" if a flow is to be
// compared first, "ipv6" if IPv6 is to be carried as well, "only6" if nothing else, "keep" if it is to keep
// the counters true that somebody has asked for, "nonat" if translated connections are to stay slow, "retry" if a daemon for IPv6 that has failed is to be started again within seconds, or "replace" if
// it may take over from another process.
func enable(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	has := func(word string) bool { return slices.Contains(args[3:], word) }
	if has("retry") {
		node.RetryIPv6(3 * time.Second)
	}
	var c node.Configs
	err := error(nil)
	if !has("only6") {
		c.IPv4, err = planned(audit.IPv4)
	}
	if err == nil && (has("ipv6") || has("only6")) {
		c.IPv6, err = planned(audit.IPv6)
	}
	if err == nil {
		trial, _ := time.ParseDuration(args[2])
		for _, one := range []*fastpath.Config{c.IPv4, c.IPv6} {
			if one == nil {
				continue
			}
			one.TC, one.NoNAT = has("filters"), has("nonat")
			if has("keep") {
				one.KeepCounters = fastpath.PurposefulCounters
			}
		}
		first := node.ShadowOptions{}
		if has("shadow") {
			first = node.ShadowOptions{Flows: 1, Limit: testenv.Timeout, Compared: func(family string, found shadow.Result) {
				fmt.Printf("compared: %d flows of %s\n", found.Flows, family)
			}}
		}
		var stats node.FamilyStats
		stats, err = node.Enable(ctx, c, node.Options{
			ReportIPv6: func(s fastpath.State) { fmt.Fprintf(os.Stderr, "IPv6: %+v\n", s) },
			Open:       func() (*journal.Journal, error) { return openJournal(args[1]) },
			Reopen:     func() (*journal.Journal, error) { return openJournal(args[1]) },
			Trial:      trial, Shadow: first, Replace: has("replace"),
			Hold:   func(int) error { return nil },
			Report: func(s fastpath.State) { fmt.Printf("%+v\n", s) },
		})
		fmt.Println("disabled:", stats.Disabled)
	}
	if errors.Is(err, node.ErrReplaced) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// planned is the configuration by which something of a version of IP is carried.
func planned(family audit.Family) (*fastpath.Config, error) {
	plan, err := discover.Find(family)
	if err != nil {
		return nil, err
	}
	c := plan.Config()
	return &c, nil
}

// compare is a process that compares packets of so many flows with the network's own: FOLDER FLOWS,
// and "filters" as above, or "ipv6" for packets of IPv6. It prints the result.
func compare(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	family := audit.IPv4
	if slices.Contains(args[3:], "ipv6") {
		family = audit.IPv6
	}
	plan, err := discover.Find(family)
	if err == nil {
		config := plan.Config()
		config.TC = slices.Contains(args[3:], "filters")
		flows, _ := strconv.Atoi(args[2])
		var found shadow.Result
		found, err = node.Shadow(ctx, config, node.Options{
			Open:   func() (*journal.Journal, error) { return openJournal(args[1]) },
			Reopen: func() (*journal.Journal, error) { return openJournal(args[1]) },
			Shadow: node.ShadowOptions{Flows: flows, Limit: testenv.Timeout},
		})
		if err == nil || errors.Is(err, node.ErrReplaced) {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func openJournal(folder string) (*journal.Journal, error) {
	return journal.Open(journal.Options{
		Folder: folder, Settings: setting.NewSettings(node.Backend()), Wait: 10 * time.Second, User: "test", Command: "test", Version: "test",
	})
}
