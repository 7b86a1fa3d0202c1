package venturi_test

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// A name says what a thing is or does: a noun or a verb of the field. These words do
// neither, so nothing is named by one of them alone.
var functionWords = map[string]string{
	"preposition": `about above across after against along amid among apart around as aside at away back before behind
		below beneath beside besides between beyond by down during except for from in inside into like near of off on
		onto out outside over past per since through till to toward under until up upon via with within without`,
	"pronoun": `any both each either every he her him his i it its itself me mine my neither nobody none nothing one ones
		other others our ours ourselves own she some somebody such that their theirs them themselves these they this
		those us we what which who whom whose you your all another same`,
	"adverb": `again ahead alike alone already also always else elsewhere ever far fast here hence how however just maybe
		merely more most much nearly never not now often once only perhaps quite rather really seldom so solely
		sometimes soon still surely then there thus together too twice very well when where whether why yet`,
	"auxiliary": `am are be been being can could did do does done had has have is may might must shall should was were
		will would`,
	"participle": `begun born borne bound brought built caught chosen come dealt driven fallen felt found given gone
		gotten grown heard held hidden kept known lacking laid lasting led left lent lost made meant met missing
		mistaken paid proven ridden risen said seen sent shaken shown sold spent spoken stood struck swept taken told
		torn understood woken won worn written`,
}

// idioms are the words of them that are standard terms, and for what they stand.
var idioms = map[string]struct {
	kinds string // of declarations that may have the name alone
	why   string
}{
	"from":    {"field", "the ends of a route or a range, as in ip(8)"},
	"to":      {"field", "as from"},
	"in":      {"field", "a direction, as in iptables(8); an input, as in package io"},
	"out":     {"field", "as in"},
	"left":    {"field", "a side, as in CSS"},
	"up":      {"function method field", "the state of a link, as in ip(8)"},
	"down":    {"function method field", "as up"},
	"via":     {"field", "a next hop, as in ip(8)"},
	"on":      {"field value", "the state of a feature, as in ethtool(8)"},
	"off":     {"field value", "as on"},
	"sent":    {"field", "a count, as ping(8) prints it"},
	"lost":    {"field", "as sent"},
	"since":   {"field method", "a time, as in journalctl(1)"},
	"until":   {"field", "as since"},
	"all":     {"function method field", "an iterator, as in package slices"},
	"has":     {"method", "membership, as of url.Values"},
	"is":      {"method", "as errors.Is"},
	"as":      {"method", "as errors.As"},
	"do":      {"function method field", "what runs an action, as sync.Once.Do and http.Client.Do; the third part of an error"},
	"why":     {"field", "the second part of an error"},
	"what":    {"field", "the first part of an error"},
	"now":     {"function method field", "as time.Now"},
	"done":    {"field method", "as context.Context.Done"},
	"once":    {"field", "a sync.Once"},
	"with":    {"method", "as slog.Logger.With"},
	"after":   {"method field", "as time.Time.After; the second of two states"},
	"before":  {"method field", "as time.Time.Before; the first of two states"},
	"missing": {"field value", "what is not installed: an exit code"},
	"must":    {"function", "the helper that fails on an error, as template.Must"},
}

func TestNamesSayWhatThingsAre(t *testing.T) {
	kindOf := map[string]string{}
	for kind, words := range functionWords {
		for word := range strings.FieldsSeq(words) {
			kindOf[word] = kind
		}
	}
	for word := range idioms {
		if kindOf[word] == "" {
			t.Errorf("the idiom %q is in no list of words", word)
		}
	}
	names := 0
	for _, s := range allSources(t) {
		if s.generated {
			continue
		}
		file := strings.TrimSuffix(strings.TrimSuffix(path.Base(s.path), ".go"), "_test")
		if kind := kindOf[file]; kind != "" {
			t.Errorf("%s is named by a mere %s", s.path, kind)
		}
		eachDeclaration(s.syntax, func(what string, name *ast.Ident) {
			names++
			word := strings.ToLower(name.Name)
			kind := kindOf[word]
			if kind != "" && !slices.Contains(strings.Fields(idioms[word].kinds), what) {
				t.Errorf("%s: the %s %s is named by a mere %s", fileSet.Position(name.Pos()), what, name.Name, kind)
			}
		})
	}
	if names < 5000 {
		t.Errorf("only %d names were looked at", names)
	}
}

// eachDeclaration visits what a file declares for the rest of its package: types with
// their fields and methods, functions, constants and variables.
func eachDeclaration(f *ast.File, visit func(kind string, name *ast.Ident)) {
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			kind := "function"
			if d.Recv != nil {
				kind = "method"
			}
			visit(kind, d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range s.Names {
						visit("value", name)
					}
				case *ast.TypeSpec:
					visit("type", s.Name)
					eachMember(s.Type, visit)
				}
			}
		}
	}
}

func eachMember(of ast.Expr, visit func(kind string, name *ast.Ident)) {
	ast.Inspect(of, func(n ast.Node) bool {
		list, kind := (*ast.FieldList)(nil), "field"
		switch n := n.(type) {
		case *ast.StructType:
			list = n.Fields
		case *ast.InterfaceType:
			list, kind = n.Methods, "method"
		default:
			return true
		}
		for _, field := range list.List {
			for _, name := range field.Names {
				visit(kind, name)
			}
		}
		return true
	})
}

// One exported type name stands for one idea, in whatever package. These names are in
// several packages, each with the reason why that is one idea, or a word that every Go
// programmer reads by its package.
var sharedNames = map[string]string{
	"Arm":       "one path in a comparison, as each layer needs it",
	"Attr":      "an attribute of netlink",
	"Attrs":     "attributes of netlink",
	"Axis":      "of a table, and of a figure",
	"Bucket":    "of a histogram",
	"Cell":      "one load at one size: planned, and summed up",
	"Change":    "what differs between two states: to be written, and measured",
	"Client":    "the active end of a connection",
	"Command":   "a command line to run",
	"Condition": "what must hold: the package says for what",
	"Config":    "the form of a file that a program reads",
	"Device":    "a network device",
	"Dialer":    "opens one more stream to a guest",
	"Encap":     "what a tunnel puts around a packet",
	"Ends":      "where the traffic of an arm runs",
	"Entry":     "an entry of a table or of a journal: the package says which",
	"Env":       "what surrounds a command or a driver",
	"Event":     "something that happened: the package says where",
	"Facts":     "what is known of a thing beforehand: the package says of what",
	"Family":    "a version of IP: that of topology is that of audit, for those who may not see the audit",
	"Feature":   "an offload of a device",
	"File":      "a file: the package says which",
	"Gauge":     "measures a path again and again: what it is, and what does it",
	"Group":     "some things of a kind: the package says which",
	"Guest":     "a virtual machine",
	"Latency":   "of a ping-pong load: one slice, and all slices",
	"Lease":     "the time after which a transaction is undone: recorded, and still running",
	"Load":      "a kind of traffic: ours, and as a tool can send it",
	"Machine":   "a machine, as each layer reaches it",
	"Metric":    "a figure of a measurement",
	"Module":    "a module of a kernel",
	"NIC":       "a network card of a guest, from outside and from inside",
	"Neighbour": "a standard term of ARP and of BGP",
	"Netns":     "a network namespace",
	"Noise":     "of figures: simulated, and measured",
	"Options":   "the options of the package's one entry point",
	"Part":      "a part of a whole: the package says of what",
	"Peer":      "the other end: of a BGP session, and of a tunnel",
	"Plan":      "what will be measured: a whole run, and one series",
	"Port":      "of a virtual switch",
	"Progress":  "how far work has come",
	"Result":    "what the package's one entry point returns",
	"Route":     "an IP route: read, to be written, and learned",
	"Row":       "of a table: the package says which",
	"Rule":      "a standard term of nftables, and of what a doctor looks for",
	"Section":   "a part of a list that has a title",
	"Size":      "of a terminal",
	"State":     "what a daemon says of itself",
	"Stream":    "of a one-way load: one slice, and all slices",
	"Summary":   "the figures of a whole: the package says of what",
	"Table":     "a table: the package says of what",
	"Tool":      "a measuring program that others wrote",
	"Verdict":   "what the figures allow to say",
	"Watch":     "is told how a run goes",
	"Wire":      "what joins the machines of a lab: what it is, and which are asked for",
	"Writer":    "writes: the package says where",
}

func TestExportedTypesAreOneIdea(t *testing.T) {
	in := map[string][]string{}
	for _, s := range allSources(t) {
		if s.generated || s.test {
			continue
		}
		for _, decl := range s.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range d.Specs {
				if spec, ok := spec.(*ast.TypeSpec); ok && spec.Name.IsExported() && !slices.Contains(in[spec.Name.Name], s.dir) {
					in[spec.Name.Name] = append(in[spec.Name.Name], s.dir)
				}
			}
		}
	}
	for name, dirs := range in {
		if len(dirs) > 1 && sharedNames[name] == "" {
			t.Errorf("type %s is in %s: give one another name, or list it with what idea both share", name, strings.Join(dirs, " and "))
		}
	}
	for name := range sharedNames {
		if len(in[name]) < 2 {
			t.Errorf("the name %s is shared by no two packages any more: take it out of the list", name)
		}
	}
}
