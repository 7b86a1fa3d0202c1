// Package nft decodes what the kernel tells of its packet filter: chains, rules, sets, elements and
// objects of nftables, and whether tables of legacy iptables are there. It only reads.
package nft
