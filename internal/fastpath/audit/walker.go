package audit

// chainWalker walks through chains as packets of established flows do. It follows what is known of
// their marks.
type chainWalker struct {
	Overlay
	sets      *setReader
	chains    map[[3]string][][]byte // messages about rules, each read once
	ipsets    map[uint16]ipset       // nil: not read yet
	stateless bool                   // connections are not tracked
	toTunnel  bool                   // audit pods' UDP packets to the tunnel's port only
	unreplied bool                   // audit packets before the first reply
	following bool                   // follow packets of tunnels, see [chainWalker.findLater]: all else is noted already
	pinned    uint32                 // likewise: 0, or the only state that they have
	direct    bool                   // likewise: their destination is not translated
	strangers *strangerSet           // nil: packets of tunnels may be whatever rules ask for, see [Strangers]
	iptables  map[[2]string]bool     // families and tables that iptables has made
	filters   map[[2]string]bool     // those with chains at hooks that do more than translate
	unscanned [][2]string            // families and tables, see [chainWalker.scanRules]
	nat       []baseChain            // chains for tunnel packets that translate addresses
	unmet     map[chainName]bool     // chains at hooks that neither packets of pods nor those of tunnels pass

	walkFindings
	walkState

	// These outlast walks, too: whoever follows packets from hook to hook resets them.
	separatedBy string    // the first rule of the hook that takes packets apart, see [chainWalker.findLater]
	diverges    bool      // some rule of the hook does, by their state or a mark
	outerReads  []connUse // rules for tunnels' packets that read marks of connections, but those that translate
	writes      uint32    // bits of packets' marks that rules of the hook, or of bridges, may change
	labels      string    // the first rule of the hook that sets security marks
}

// walkFindings are what all walks have found.
type walkFindings struct {
	untracked     bool     // a notrack rule was found
	untracksPort  bool     // one for packets to the tunnel's port, which pods may use, too
	findings      []string // why packets are treated differently
	markChain     string   // chain of a rule that sets marks
	leavesMark    bool     // forwarded packets may have a mark in the end
	readsConnMark bool     // rules depend on marks of connections
	writesMark    string   // the first rule that sets marks of packets or connections, of any kind
	admits        string   // a rule that accepts more of a connection once that was answered, see [chainWalker.noteAnswer]
	asked         []string // ipsets that rules depend on
	hidesEvents   string   // a rule that sets which events of connections are announced
	tracks        bool     // a rule goes by connection tracking, or translates
	onBridges     bool     // one for bridges does
	separated     bool     // a rule tells the first packet of a tunnel's connection from those behind it

	entry markValue // what is known of the mark of packets that come to any hook

	// Rules that count or log, and those of iptables that do so because all have a counter.
	counting, countingByIPTables countingRules
}

// walkState is of one walk, which begins with [newWalkState].
type walkState struct {
	differences []string
	walked      map[walkedChain]chainResult
	visits      map[chainName]int
	inert       map[chainName]bool // chains that were asked about: whether all their rules are, see [chainWalker.isInert]
	admitNone   map[chainName]bool // likewise: whether they do, see [chainWalker.admitsNothing]
	actNone     map[chainName]bool // likewise, see [chainWalker.changesNothing]
	connUses    map[bool]*connUses // by whether the connection is that of a tunnel
}

func newWalker(of Overlay) *chainWalker {
	return &chainWalker{
		Overlay: of, sets: newSetReader(), chains: map[[3]string][][]byte{},
		iptables: map[[2]string]bool{}, filters: map[[2]string]bool{}, unmet: map[chainName]bool{},
		walkFindings: walkFindings{
			entry: knownMark(0), counting: newCountingRules(), countingByIPTables: newCountingRules(),
		},
	}
}

func newWalkState() walkState {
	return walkState{
		walked: map[walkedChain]chainResult{}, visits: map[chainName]int{},
		inert: map[chainName]bool{}, admitNone: map[chainName]bool{}, actNone: map[chainName]bool{},
		connUses: map[bool]*connUses{false: {}, true: {}},
	}
}

// begin begins a walk.
func (w *chainWalker) begin() { w.walkState = newWalkState() }
