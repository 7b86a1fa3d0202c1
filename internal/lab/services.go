package lab

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"slices"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

// MaxServices is how many Services the rules have addresses for.
const MaxServices = 60000

func checkServices(n int) error {
	if n < 0 || n > MaxServices {
		return verr.New(verr.Usage, fmt.Sprintf("cannot write the rules of %d Services", n),
			"the number is out of range", fmt.Sprintf("give a number from 0 to %d", MaxServices))
	}
	return nil
}

// services gives all machines, and the namespaces of their switches, the packet filter of a node with kube-proxy in
// iptables mode: the chains that every packet walks, n Services of one port
// and one endpoint each, and with them connection tracking. What a bridge
// forwards goes through it too, as kube-proxy wants, if br_netfilter is loaded. What every
// packet walks is written as iptables-nft writes it, because a packet walks that
// longer than nftables' own expressions, which stand in its place where the kernel
// has no extensions of iptables. The nat table has those always: only the first
// packet of a connection walks it.
func (b *builder) services(ctx context.Context, o Options) error {
	if o.Services == 0 {
		return nil
	}
	nat, filter := natTable(o.Services), filterTable()
	if answer, _ := feature.XTables.Ask(); answer == feature.Yes {
		filter.Wrapped = true
	}
	for _, n := range slices.Concat(b.machine, b.spaces) {
		if n == nil {
			continue // another host's
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// Where br_netfilter is not loaded the rules see what is routed, which is
		// all that the lab's paths carry from one machine to the other. To load
		// it would switch it on for the machine's own bridges as well.
		if err := n.Sysctl(netcfg.Sysctl{Name: "net.bridge.bridge-nf-call-iptables", Value: "1", Optional: true}); err != nil {
			return err
		}
		if err := n.AddTables(nat, filter); err != nil {
			return err
		}
	}
	return nil
}

// masqMark is the bit of a packet's mark that asks for masquerading.
const masqMark = 0x4000

var (
	clusterPods = path.Pods
	loopback    = netip.MustParsePrefix("127.0.0.0/8")
)

// service is one Service with one endpoint. The endpoint is nobody's: traffic
// of the lab does not use Services, it only passes their rules.
type service struct {
	svc, sep  string // names of its chains
	clusterIP netip.Prefix
	endpoint  netip.AddrPort
}

const (
	servicePort  = 80
	endpointPort = 8080
	perByte      = 250 // addresses used of the last byte
)

func makeService(i int) service {
	hi, lo := byte(i/perByte), byte(i%perByte+1)
	name := fmt.Sprintf("default/service-%d", i)
	return service{
		svc:       "KUBE-SVC-" + tag(name),
		sep:       "KUBE-SEP-" + tag(name+"/endpoint"),
		clusterIP: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 96, hi, lo}), 32),
		endpoint:  netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 245, hi, lo}), endpointPort),
	}
}

// tagLength is how much of a hash kube-proxy's names of chains carry.
const tagLength = 16

func tag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base32.StdEncoding.EncodeToString(sum[:])[:tagLength]
}

// rules gives the rule that finds the service, and its two chains.
func (s service) rules() (entry netcfg.Rule, chains []netcfg.Chain) {
	pod := netip.PrefixFrom(s.endpoint.Addr(), 32)
	entry = netcfg.Rule{netcfg.TCP(), netcfg.Dst(s.clusterIP), netcfg.Dport(servicePort), netcfg.Jump(s.svc)}
	chains = []netcfg.Chain{
		{Name: s.svc, Rules: []netcfg.Rule{
			// Who is no pod gets an answer only if it seems to come from here.
			{netcfg.TCP(), netcfg.NotSrc(clusterPods), netcfg.Dst(s.clusterIP), netcfg.Dport(servicePort), netcfg.Jump("KUBE-MARK-MASQ")},
			{netcfg.Jump(s.sep)},
		}},
		{Name: s.sep, Rules: []netcfg.Rule{
			// So does a pod that reaches itself.
			{netcfg.Src(pod), netcfg.Jump("KUBE-MARK-MASQ")},
			{netcfg.TCP(), netcfg.DNAT(s.endpoint)},
		}},
	}
	return entry, chains
}

func natTable(services int) netcfg.Table {
	var find []netcfg.Rule
	var chains []netcfg.Chain
	for i := range services {
		entry, own := makeService(i).rules()
		find, chains = append(find, entry), append(chains, own...)
	}
	find = append(find, netcfg.Rule{netcfg.ToLocal(), netcfg.Jump("KUBE-NODEPORTS")})
	toServices := []netcfg.Rule{{netcfg.Jump("KUBE-SERVICES")}}
	return netcfg.Table{Name: "nat", Chains: append([]netcfg.Chain{
		{Name: "PREROUTING", Hook: netcfg.NATPrerouting, Rules: toServices},
		{Name: "OUTPUT", Hook: netcfg.NATOutput, Rules: toServices},
		{Name: "POSTROUTING", Hook: netcfg.NATPostrouting, Rules: []netcfg.Rule{{netcfg.Jump("KUBE-POSTROUTING")}}},
		{Name: "KUBE-SERVICES", Rules: find},
		{Name: "KUBE-NODEPORTS"},
		{Name: "KUBE-MARK-MASQ", Rules: []netcfg.Rule{{netcfg.SetMark(masqMark)}}},
		{Name: "KUBE-POSTROUTING", Rules: []netcfg.Rule{
			{netcfg.NotMarked(masqMark), netcfg.Return()},
			{netcfg.FlipMark(masqMark)},
			{netcfg.Masquerade()},
		}},
	}, chains...)}
}

// filterTable holds what every packet meets, whatever the number of Services:
// those with endpoints leave no rule in it. The comments are kube-proxy's; what
// jumps to KUBE-FIREWALL is of the kubelet, and has none.
func filterTable() netcfg.Table {
	const (
		balancer = "kubernetes load balancer firewall"
		health   = "kubernetes health check service ports"
		outside  = "kubernetes externally-visible service portals"
		portals  = "kubernetes service portals"
		forward  = "kubernetes forwarding rules"
	)
	fresh := func(comment, chain string) netcfg.Rule {
		return netcfg.Rule{netcfg.InState(netcfg.New), netcfg.Comment(comment), netcfg.Jump(chain)}
	}
	always := func(comment, chain string) netcfg.Rule {
		return netcfg.Rule{netcfg.Comment(comment), netcfg.Jump(chain)}
	}
	firewall := netcfg.Rule{netcfg.Jump("KUBE-FIREWALL")}
	return netcfg.Table{Name: "filter", Chains: []netcfg.Chain{
		{Name: "INPUT", Hook: netcfg.FilterInput, Rules: []netcfg.Rule{
			fresh(balancer, "KUBE-PROXY-FIREWALL"), always(health, "KUBE-NODEPORTS"), fresh(outside, "KUBE-EXTERNAL-SERVICES"), firewall,
		}},
		{Name: "FORWARD", Hook: netcfg.FilterForward, Rules: []netcfg.Rule{
			fresh(balancer, "KUBE-PROXY-FIREWALL"), always(forward, "KUBE-FORWARD"), fresh(portals, "KUBE-SERVICES"), fresh(outside, "KUBE-EXTERNAL-SERVICES"),
		}},
		{Name: "OUTPUT", Hook: netcfg.FilterOutput, Rules: []netcfg.Rule{
			fresh(balancer, "KUBE-PROXY-FIREWALL"), fresh(portals, "KUBE-SERVICES"), firewall,
		}},
		{Name: "KUBE-FORWARD", Rules: []netcfg.Rule{
			{netcfg.InState(netcfg.Invalid), netcfg.Drop()},
			{netcfg.Comment(forward), netcfg.Marked(masqMark), netcfg.Accept()},
			{netcfg.Comment("kubernetes forwarding conntrack rule"), netcfg.InState(netcfg.Related | netcfg.Established), netcfg.Accept()},
		}},
		{Name: "KUBE-FIREWALL", Rules: []netcfg.Rule{
			{
				netcfg.NotSrc(loopback), netcfg.Dst(loopback), netcfg.Comment("block incoming localnet connections"),
				netcfg.NotInState(netcfg.Related | netcfg.Established), netcfg.NotTranslated(), netcfg.Drop(),
			},
		}},
		{Name: "KUBE-SERVICES"},
		{Name: "KUBE-EXTERNAL-SERVICES"},
		{Name: "KUBE-PROXY-FIREWALL"},
		{Name: "KUBE-NODEPORTS"},
	}}
}
