package study

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// hostDriver is the driver of the host network, which every study measures.
const hostDriver = "host"

// Parse reads a study. name says where it is from; errors are for a user and
// give it with the line.
func Parse(name string, data []byte) (*Study, error) {
	s, err := parse(data)
	if err == nil {
		return s, nil
	}
	at, do := name, `see "venturi study --help" for what a study file may say`
	if m := new(mistake); errors.As(err, &m) {
		if m.line > 0 {
			at += ":" + strconv.Itoa(m.line)
		}
		if m.do != "" {
			do = m.do
		}
		err = errors.New(m.reason)
	}
	return nil, verr.New(verr.Usage, "cannot read the study "+name, at+": "+err.Error(), do)
}

func parse(data []byte) (*Study, error) {
	f, root, err := decode(data)
	if err != nil {
		return nil, err
	}
	c := checker{file: f, root: root, study: &Study{}}
	for _, step := range []func() error{c.words, c.paths, c.machines, c.wires, c.loads, c.time, c.tables} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return c.study, nil
}

// checker makes a study of a file, part by part.
type checker struct {
	file  *file
	root  *yaml.Node
	study *Study
	arms  []path.Arm
	names []string // of the file's paths
}

// because turns an error for a user from another package into a mistake.
func because(line int, err error) error {
	if known := new(verr.Error); errors.As(err, &known) {
		return &mistake{line: line, reason: known.Summary + ": " + known.Reason, do: known.Hint}
	}
	return &mistake{line: line, reason: err.Error()}
}

var goodName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

const nameHelp = "use a-z, 0-9 and -, beginning with a letter or digit"

func checkName(t text) error {
	if goodName.MatchString(t.s) {
		return nil
	}
	return &mistake{line: t.line, reason: fmt.Sprintf("%q cannot be a name", t.s), do: nameHelp}
}

func (c *checker) words() error {
	f, s := c.file, c.study
	for _, must := range []struct {
		key string
		is  text
	}{{"name", f.Name}, {"title", f.Title}} {
		if strings.TrimSpace(must.is.s) == "" {
			return wrong(lineOf(c.root, must.key, 0), "the study has no %s", must.key)
		}
	}
	s.Name, s.Title, s.Question, s.Source = f.Name.s, oneLine(f.Title), oneLine(f.Question), oneLine(f.Source)
	return checkName(f.Name)
}

// oneLine joins a text that was written over several lines.
func oneLine(t text) string { return strings.Join(strings.Fields(t.s), " ") }

func (c *checker) paths() error {
	if len(c.file.Paths) == 0 {
		return wrong(lineOf(c.root, "paths", 0), "the study has no paths")
	}
	var paths []Path
	host, seen := -1, map[string]bool{}
	for i, p := range c.file.Paths {
		line := lineOf(c.root, "paths", i)
		if p.Path.s == "" {
			return wrong(line, "this path has no key path, which names its driver")
		}
		spec := p.Path.s
		if p.Options.s != "" {
			if strings.Contains(spec, ":") {
				return wrong(p.Options.line, "path %s has options already, behind its colon", spec)
			}
			spec += ":" + p.Options.s
		}
		arms, err := path.Arms([]string{spec}, nil)
		if err != nil {
			return because(p.Path.line, err)
		}
		name := p.Name
		if name.s == "" {
			name = text{p.Path.line, arms[0].Driver.Name}
		}
		if err := checkName(name); err != nil {
			return err
		}
		if seen[name.s] {
			return &mistake{line: name.line, reason: fmt.Sprintf("two paths are called %s", name.s), do: "give one of them another name"}
		}
		seen[name.s] = true
		if _, err := path.Arms([]string{spec}, []string{name.s}); err != nil {
			return because(name.line, err)
		}
		if host < 0 && arms[0].Driver.Name == hostDriver {
			host = i
		}
		c.names = append(c.names, name.s)
		paths = append(paths, Path{Name: name.s, Spec: spec})
	}
	switch {
	case host > 0:
		h := paths[host]
		paths = slices.Insert(slices.Delete(paths, host, host+1), 0, h)
	case host < 0 && seen[hostDriver]:
		return wrong(lineOf(c.root, "paths", 0), "a path is called %s and is not the host network, which is always measured under that name", hostDriver)
	case host < 0:
		paths = slices.Insert(paths, 0, Path{Name: hostDriver, Spec: hostDriver})
	}
	c.study.Paths = paths
	q := compare.Request{}
	for _, p := range paths {
		q.Paths, q.Names = append(q.Paths, p.Spec), append(q.Names, p.Name)
	}
	var err error
	if c.arms, err = path.Arms(q.Paths, q.Names); err != nil {
		return because(lineOf(c.root, "paths", 0), err)
	}
	return nil
}

// number reads a whole number; an absent one is 0.
func number(t text, what string, least, most int) (int, error) {
	if t.s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(t.s)
	if err != nil || n < least || n > most {
		return 0, wrong(t.line, "%s is %q, not a number from %d to %d", what, t.s, least, most)
	}
	return n, nil
}

func (c *checker) machines() (err error) {
	m, s := c.file.Machines, c.study
	if s.Hosts, err = number(m.Hosts, "hosts", lab.DefaultHosts, lab.MaxHosts); err != nil {
		return err
	}
	if err := path.CheckCapacity(len(c.arms), max(s.Hosts, lab.DefaultHosts)); err != nil {
		return because(m.Hosts.line, err)
	}
	if s.Services, err = number(m.Services, "services", 0, lab.MaxServices); err != nil {
		return err
	}
	if _, err := (compare.Request{Services: s.Services}).Plan(); err != nil {
		return because(m.Services.line, err)
	}
	cores, err := lab.ParseCores(m.Cores.s)
	if err != nil {
		return because(m.Cores.line, err)
	}
	s.Cores = cores.String()
	r, err := compare.Request{Hosts: s.Hosts, Cores: s.Cores}.Resolve()
	if err == nil {
		err = r.CheckAnywhere()
	}
	if err != nil {
		return because(m.Cores.line, err)
	}
	return nil
}

func (c *checker) wires() error {
	s := c.study
	for i, w := range c.file.Wires {
		line := lineOf(c.root, "wires", i)
		if w.Name.s == "" {
			return wrong(line, "this wire has no name")
		}
		if err := checkName(w.Name); err != nil {
			return err
		}
		if slices.ContainsFunc(s.Wires, func(o Wire) bool { return o.Name == w.Name.s }) {
			return wrong(w.Name.line, "two wires are called %s", w.Name.s)
		}
		s.Wires = append(s.Wires, Wire{Name: w.Name.s, Options: w.Options.s})
		if err := c.wire(w.Options.s, max(line, w.Options.line)); err != nil {
			return err
		}
	}
	if len(s.Wires) > 0 {
		return c.onWires()
	}
	s.Wires = []Wire{{}}
	if err := c.wire("", lineOf(c.root, "paths", 0)); err != nil {
		return err
	}
	return c.onWires()
}

// onWires reads on which wires paths are that are not on all.
func (c *checker) onWires() error {
	s := c.study
	s.WiresOf = map[string][]string{}
	for i, p := range c.file.Paths {
		for _, name := range p.Wires.items {
			if !slices.ContainsFunc(s.Wires, func(w Wire) bool { return w.Name != "" && w.Name == name }) {
				return wrong(p.Wires.line, "the study has no wire %q", name)
			}
		}
		if len(p.Wires.items) == 0 {
			continue
		}
		if c.names[i] == s.Paths[0].Name {
			return wrong(p.Wires.line, "the host network is on every wire")
		}
		s.WiresOf[c.names[i]] = p.Wires.items
	}
	return nil
}

// wire tells whether a wire can be, and carries all paths.
func (c *checker) wire(options string, line int) error {
	wire, err := lab.ParseWire(options)
	if err != nil {
		return because(line, err)
	}
	for _, a := range c.arms {
		if _, err := a.MTU(wire.MTU); err != nil {
			return because(line, err)
		}
	}
	return nil
}

// cellSpec reads a load with its sizes and flows, as loads and figures have them.
func cellSpec(name text, sizes, flows list, more fileTraffic, line int) (compare.CellSpec, error) {
	c := compare.CellSpec{Load: name.s, Sizes: strings.Join(sizes.items, ","), Tool: more.Tool.s}
	var err error
	if c.Threads, err = number(more.Threads, "threads", 1, compare.MaxFlows); err != nil {
		return c, err
	}
	if more.Response.s != "" {
		if c.Response, err = compare.ParseResponse(more.Response.s); err != nil {
			return c, because(more.Response.line, err)
		}
	}
	if more.Rate.s != "" {
		rate, err := load.ParseRate(more.Rate.s)
		if err != nil {
			return c, because(more.Rate.line, err)
		}
		c.Rate = rate
	}
	if c.Background, err = compare.ParseBeside(more.Background.s, more.Cores.s); err != nil {
		return c, because(max(more.Background.line, more.Cores.line), err)
	}
	if name.s == "" {
		return c, wrong(line, "there is no load")
	}
	if len(sizes.items) > 0 {
		if _, err := compare.ParseSizes(c.Sizes); err != nil {
			return c, because(sizes.line, err)
		}
	}
	if len(flows.items) == 0 {
		return c, nil
	}
	for _, item := range strings.Split(strings.Join(flows.items, ","), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 1 {
			return c, wrong(flows.line, "flows is %q, not a number of 1 or more", item)
		}
		c.Flows = append(c.Flows, n)
	}
	return c, nil
}

func (c *checker) loads() error {
	if len(c.file.Loads) == 0 {
		return wrong(lineOf(c.root, "loads", 0), "the study has no loads")
	}
	q := c.study.Requests()[0]
	for i, l := range c.file.Loads {
		line := lineOf(c.root, "loads", i)
		cell, err := cellSpec(l.Load, l.Sizes, l.Flows, l.fileTraffic, line)
		if err != nil {
			return err
		}
		q.Cells = []compare.CellSpec{cell}
		if _, err := q.Plan(); err != nil {
			return because(line, err)
		}
		l, err := loadOf(cell, l.Emulated)
		if err != nil {
			return err
		}
		c.study.Loads = append(c.study.Loads, l)
	}
	if !slices.ContainsFunc(c.study.Loads, func(l Load) bool { return !l.RealCPU }) {
		return wrong(lineOf(c.root, "loads", 0), "no load is left where the CPU is emulated")
	}
	return nil
}

// loadOf reads whether a load is measured where the CPU is emulated.
func loadOf(cell compare.CellSpec, emulated text) (Load, error) {
	switch emulated.s {
	case "", "yes":
		return Load{CellSpec: cell}, nil
	case "no":
		return Load{CellSpec: cell, RealCPU: true}, nil
	}
	return Load{}, wrong(emulated.line, "emulated is %q, but must be yes or no", emulated.s)
}

func (c *checker) time() (err error) {
	f, s := c.file, c.study
	if f.Margin.s != "" {
		if s.Margin, err = compare.ParseShare(f.Margin.s); err != nil {
			return because(f.Margin.line, err)
		}
		if s.Margin == 0 {
			return wrong(f.Margin.line, "the margin is 0, and no two measurements are the same to the last digit")
		}
		if _, err := s.Requests()[0].Plan(); err != nil {
			return wrong(f.Margin.line, "the margin is %q, not a share between 0 and 50 %%", f.Margin.s)
		}
	}
	if f.ToolTime.s != "" {
		if s.ToolTime, err = time.ParseDuration(f.ToolTime.s); err != nil || s.ToolTime <= 0 {
			return wrong(f.ToolTime.line, "the tool-time is %q, not a time such as 10s", f.ToolTime.s)
		}
		if _, err := s.Requests()[0].Plan(); err != nil {
			return because(f.ToolTime.line, err)
		}
	}
	if f.Budget.s != "" {
		if s.Budget, err = time.ParseDuration(f.Budget.s); err != nil || s.Budget <= 0 {
			return wrong(f.Budget.line, "the budget is %q, not a time such as 90s or 5m", f.Budget.s)
		}
	}
	if f.Emulated.s != "" {
		if s.EmulatedBudget, err = time.ParseDuration(f.Emulated.s); err != nil || s.EmulatedBudget < s.Budget || s.Budget == 0 {
			return wrong(f.Emulated.line, "the emulated-budget is %q, not a time of at least the budget", f.Emulated.s)
		}
	}
	if _, err := s.Requests()[0].Plan(); err != nil {
		return because(max(f.Budget.line, 1), err)
	}
	return nil
}
