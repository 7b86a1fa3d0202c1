package traffic

// Wires are the kinds of network cards that every path is checked over, as lab.ParseWire reads them.
var Wires = []string{
	"",
	"tunnel-tso=off",
	"tso=off,tunnel-tso=off,gro=on",
	"csum=off",
	"mtu=9000",
	"mtu=576",
}

// FewWires are those of them on which most is left to the cards, and little, and one with small packets.
var FewWires = []string{"", "tso=off,tunnel-tso=off,gro=on", "mtu=576"}
