package egress

import (
	"net/netip"
	"strings"
)

// Class is what kind of address a connection goes to. A [Policy] may name all but Reserved and Unknown.
type Class string

// The classes.
const (
	Public    Class = "public"
	Private   Class = "private"    // networks of one's own, those of carriers (100.64.0.0/10) among them
	Loopback  Class = "loopback"   // this machine
	LinkLocal Class = "link-local" // the link that it is on
	Metadata  Class = "metadata"   // where clouds tell their machines what they are, credentials among it
	Reserved  Class = "reserved"   // nobody's, or everybody's: documentation, tests, multicast, tunnels
	Unknown   Class = "unknown"    // of what did not come to an address
)

// Named returns the classes that a list may name.
func Named() []Class { return []Class{Public, Private, Loopback, LinkLocal, Metadata} }

// Classes returns all classes.
func Classes() []Class { return append(Named(), Reserved, Unknown) }

// guarded reports whether a class is refused by default, and never opened by the name of a host.
func (c Class) guarded() bool { return c != Public && c != Private }

// ranges are the networks of each class but Public, the first that has an address counts. Clouds' are in the order AWS
// and most others, its containers, its pods, Scaleway, Tencent, Alibaba, Oracle, Azure; then AWS, its pods, Google, Scaleway, OpenStack.
var ranges = []struct {
	class    Class
	networks []netip.Prefix
}{
	{Metadata, prefixes(`169.254.169.254/32 169.254.170.2/32 169.254.170.23/32 169.254.42.42/32 169.254.0.23/32 100.100.100.200/32 192.0.0.192/32 168.63.129.16/32
		fd00:ec2::254/128 fd00:ec2::23/128 fd20:ce::254/128 fd00:42::42/128 fe80::a9fe:a9fe/128`)},
	{Loopback, prefixes("127.0.0.0/8 0.0.0.0/8 ::1/128 ::/128")}, // 0.0.0.0 and :: lead to this machine
	{LinkLocal, prefixes("169.254.0.0/16 fe80::/10")},
	{Private, prefixes("10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10")},
	{Reserved, prefixes(`192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
		64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 3fff::/20 5f00::/16 ff00::/8`)},
}

// embedded are the networks of IPv6 whose addresses stand for one of IPv4, and where in them that lies: translation
// (NAT64 and both of the older ways), and 6to4.
var embedded = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12},
	{netip.MustParsePrefix("::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
}

func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for text := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// ClassOf returns the class of an address; of one that stands for an address of IPv4, that one's.
func ClassOf(at netip.Addr) Class {
	at = plain(at)
	for _, r := range ranges {
		if within(at, r.networks) {
			return r.class
		}
	}
	return Public
}

// plain returns the address that packets go to: without a zone, and of IPv4 if it stands for one.
func plain(at netip.Addr) netip.Addr {
	at = at.WithZone("").Unmap()
	if !at.Is6() || at.IsUnspecified() || at.IsLoopback() {
		return at
	}
	for _, e := range embedded {
		if e.network.Contains(at) {
			bytes := at.As16()
			return netip.AddrFrom4([4]byte(bytes[e.at : e.at+4]))
		}
	}
	return at
}

func within(at netip.Addr, networks []netip.Prefix) bool {
	for _, network := range networks {
		if network.Contains(at) {
			return true
		}
	}
	return false
}

// all reports whether all of a network is of a class that has ranges.
func (c Class) all(network netip.Prefix) bool {
	for _, r := range ranges {
		for _, one := range r.networks {
			if r.class == c && one.Bits() <= network.Bits() && one.Contains(network.Addr()) {
				return true
			}
		}
	}
	return false
}
