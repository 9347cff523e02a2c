package chunk

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// Egress says where a job may connect to. The zero value lets it go anywhere but to this machine, to the link that it
// is on, and to what clouds tell their machines.
type Egress struct {
	// Any lifts all that is refused by default.
	Any bool
	// Allow are networks that may be reached although they are refused by default; Deny are never reached.
	Allow, Deny []netip.Prefix
}

// closed are refused unless they are listed. The addresses for metadata of clouds are in the first of link-local ones,
// but for those of Alibaba, Oracle and AWS over IPv6.
var closed = prefixes("127.0.0.0/8 ::1/128 0.0.0.0/8 ::/128 169.254.0.0/16 fe80::/10 100.100.100.200/32 192.0.0.192/32 fd00:ec2::254/128 fd20:ce::254/128")

func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for text := range strings.FieldsSeq(list) {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// ParseEgress reads "any", or networks and addresses that are let through, and with a "-" in front those that are not.
func ParseEgress(list []string) (Egress, error) {
	var e Egress
	for _, text := range list {
		if text == "any" {
			e.Any = true
			continue
		}
		network, deny := strings.CutPrefix(text, "-")
		prefix, err := netip.ParsePrefix(network)
		if address, addressErr := netip.ParseAddr(network); err != nil && addressErr == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return Egress{}, fmt.Errorf("%q is neither any, nor an address, nor a network such as 10.0.0.0/8", text)
		}
		if deny {
			e.Deny = append(e.Deny, prefix)
		} else {
			e.Allow = append(e.Allow, prefix)
		}
	}
	return e, nil
}

// RefusedError is for an address that a job may not reach.
type RefusedError struct{ Address string }

func (e *RefusedError) Error() string {
	return "jobs may not connect to " + e.Address + "; --egress lets them"
}

// Control is that of a [net.Dialer]: it sees the address after name resolution, before each connection, so also of redirects.
func (e Egress) Control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return &RefusedError{address}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || e.refuses(ip.Unmap().WithZone("")) {
		return &RefusedError{host}
	}
	return nil
}

func (e Egress) refuses(ip netip.Addr) bool {
	within := func(list []netip.Prefix) bool {
		for _, prefix := range list {
			if prefix.Contains(ip) {
				return true
			}
		}
		return false
	}
	return within(e.Deny) || !e.Any && within(closed) && !within(e.Allow)
}
