package e2e

// trackedChanges are those on machines that track connections.
var trackedChanges = []change{
	{
		name: "nft deny, connections tracked", services: true,
		do:   `nft 'table ip deny { chain c { type filter hook forward priority 0; meta l4proto udp drop; }; }'`,
		undo: `nft delete table ip deny`,
		out:  dropped, in: dropped,
	},
	{
		// As Felix writes a policy for the host: for packets whose destination is not translated.
		name: "nft element of a set of a policy by the connection's status", services: true,
		setup: `nft 'table ip deny{n} { set bad { type ipv4_addr; }; chain host { ip saddr @bad drop; };
			chain c { type filter hook forward priority 0; ct status != dnat counter jump host; };
			chain own { type filter hook output priority 0; ct status != dnat counter jump host; }; }'`,
		do:       `nft 'add element ip deny{n} bad { {pod} }'`,
		undo:     `nft 'delete element ip deny{n} bad { {pod} }'`,
		teardown: `nft delete table ip deny{n}`,
		out:      dropped, in: delivered,
	},
	{
		name: "nft rule of no consequence", services: true,
		do:   `nft add table ip nothing`,
		undo: `nft delete table ip nothing`,
		out:  delivered, in: delivered,
	},
	{
		name: "connections not tracked any more", services: true,
		do:   `nft 'table ip raw { chain c { type filter hook prerouting priority -300; meta l4proto udp notrack; }; }'`,
		undo: `nft delete table ip raw`,
		out:  delivered, in: delivered,
	},
	{
		name: "connections tracked in another zone", services: true,
		do:   `nft 'table ip raw { chain c { type filter hook prerouting priority -300; meta l4proto udp ct zone set 5; }; }'`,
		undo: `nft delete table ip raw`,
		out:  delivered, in: delivered,
	},
	{
		name: "masquerading of new connections", services: true,
		do:   `nft 'table ip translate { chain c { type nat hook postrouting priority 100; meta l4proto udp masquerade; }; }'`,
		undo: `nft delete table ip translate`,
		out:  delivered, in: delivered,
	},
	{
		name: "connections forgotten", services: true,
		act: forgetConnections,
		out: delivered, in: delivered,
	},
	{
		name: "connections forgotten, and new ones denied", services: true, answered: true,
		setup:    `nft 'table ip new { chain c { type filter hook forward priority 0; ct state new meta l4proto udp drop; }; }'`,
		act:      forgetConnections,
		undo:     `nft flush table ip new`,
		teardown: `nft delete table ip new`,
		out:      dropped, in: dropped,
	},
}
