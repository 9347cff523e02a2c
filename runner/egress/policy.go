package egress

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/idna"
)

// Policy says where jobs may connect to. The zero value is that of an empty list: public and private addresses.
type Policy struct {
	allow, deny rules
	listed      bool // the list says what is allowed
	text        string
}

// rules are some of a policy's.
type rules struct {
	classes  []Class
	networks []netip.Prefix
	hosts    []string // a name, or "*." and what names end in
}

const (
	anyWord  = "any"
	noneWord = "none"
	// byDefault is the list that an empty one stands for.
	byDefault = "public,private"
)

// words are what a list may name beside hosts and networks.
var words = map[string][]Class{
	anyWord: Classes(), noneWord: nil, "localhost": {Loopback},
	string(Public): {Public}, string(Private): {Private}, string(Loopback): {Loopback}, string(LinkLocal): {LinkLocal}, string(Metadata): {Metadata},
}

// Parse reads a list of what jobs may reach, whatever it leaves out being refused: words (public, private, loopback,
// link-local, metadata; any is all of these and the rest, none is nothing), addresses, networks such as 10.1.0.0/16,
// names of hosts, and *.clinic.example for all names below one. What has a ! in front is refused, whatever else allows it;
// a list of nothing else refuses that, of what an empty one allows.
//
// A name opens public and private addresses only, and so does a network that is not loopback, link-local or metadata
// as a whole: 0.0.0.0/0 does not lead to this machine. The error quotes the item and says what to write.
func Parse(list []string) (Policy, error) {
	p := Policy{text: strings.Join(list, ",")}
	for _, item := range list {
		said, deny := strings.CutPrefix(item, "!")
		to := &p.allow
		if deny {
			to = &p.deny
		} else {
			p.listed = true
		}
		if err := to.add(said); err != nil {
			return Policy{}, fmt.Errorf("%q %w", item, err)
		}
		switch {
		case deny && (said == anyWord || said == noneWord):
			return Policy{}, fmt.Errorf("%q is not known: none refuses all", item)
		case said == noneWord && len(list) > 1:
			return Policy{}, fmt.Errorf("%q stands alone", item)
		}
	}
	return p, nil
}

// MustParse is [Parse] of a list with commas, for what is known to be right. It panics.
func MustParse(list string) Policy {
	p, err := Parse(strings.FieldsFunc(list, func(r rune) bool { return r == ',' }))
	if err != nil {
		panic(err)
	}
	return p
}

// String returns the list that the policy was read from.
func (p Policy) String() string {
	if p.text == "" {
		return byDefault
	}
	return p.text
}

func (r *rules) add(item string) error {
	classes, isWord := words[strings.ToLower(item)]
	network, networkErr := netip.ParsePrefix(item)
	if address, err := netip.ParseAddr(strings.Trim(item, "[]")); err == nil && address.Zone() == "" {
		network, networkErr = netip.PrefixFrom(address, address.BitLen()), nil
	}
	switch {
	case isWord:
		r.classes = append(r.classes, classes...)
	case networkErr == nil:
		r.networks = append(r.networks, plainNetwork(network))
	case strings.Contains(item, "://"):
		return errors.New("is a URL: write its host alone")
	case strings.Contains(item, "/"):
		return errors.New("is no network: write one such as 10.1.0.0/16")
	case strings.Contains(item, ":"):
		return errors.New("has a port, or is no address: write the host alone")
	default:
		host, err := hostPattern(item)
		if err != nil {
			return err
		}
		r.hosts = append(r.hosts, host)
	}
	return nil
}

// plainNetwork returns a network of IPv4 for one that is written as of IPv6.
func plainNetwork(network netip.Prefix) netip.Prefix {
	if network.Addr().Is4In6() && network.Bits() >= 96 {
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network.Masked()
}

// hosts are written as in name servers, where names may have an underscore.
var asNameServers = idna.New(idna.MapForLookup(), idna.StrictDomainName(false), idna.VerifyDNSLength(true))

func hostPattern(item string) (string, error) {
	below, star := strings.CutPrefix(item, "*.")
	host, err := asNameServers.ToASCII(strings.TrimSuffix(below, "."))
	last := host[strings.LastIndex(host, ".")+1:]
	switch {
	case err != nil || host == "" || strings.Contains(host, "..") || strings.ContainsAny(host, "*!@?# \t\\"):
		return "", errors.New("is no host, network or word: write public, private, loopback, link-local, metadata, any, an address, a network such as 10.1.0.0/16, a name, or *.example.org")
	case strings.Trim(last, "0123456789") == "": // as browsers decide it
		return "", errors.New("is no address: write all four numbers, or a network such as 10.1.0.0/16")
	case star:
		return "*." + strings.ToLower(host), nil
	}
	return strings.ToLower(host), nil
}

// nameOf returns the name of a host as patterns have it, "" for an address.
func nameOf(host string) string {
	if _, err := netip.ParseAddr(host); err == nil {
		return ""
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// hasHost reports whether a name is like one of the hosts.
func (r *rules) hasHost(name string) bool {
	return name != "" && slices.ContainsFunc(r.hosts, func(host string) bool {
		end, star := strings.CutPrefix(host, "*")
		return name == host || star && strings.HasSuffix(name, end)
	})
}

// hasNetwork reports whether an address is in a network that opens lets through.
func (r *rules) hasNetwork(at netip.Addr, opens func(netip.Prefix) bool) bool {
	return slices.ContainsFunc(r.networks, func(network netip.Prefix) bool {
		return (network.Contains(at) || network.Contains(plain(at))) && opens(network)
	})
}

// has reports whether an address, or the name that it was found by, is among what the rules say.
func (r *rules) has(name string, at netip.Addr) bool {
	return r.hasHost(name) || slices.Contains(r.classes, ClassOf(at)) || r.hasNetwork(at, func(netip.Prefix) bool { return true })
}

// refusal is why a policy refuses a host, and which list would let jobs there, "" for none.
type refusal struct{ why, list string }

// refusesName returns why a name is not even resolved, nil if it is; name is "" for an address.
func (p Policy) refusesName(name string) *refusal {
	if p.deny.hasHost(name) {
		return p.denied(func(r *rules) bool { return r.hasHost(name) }, Policy.refusesName, name)
	}
	if name != "" && p.listed && len(p.allow.classes)+len(p.allow.networks) == 0 && !p.allow.hasHost(name) {
		return p.unlisted("the host is not in its list", name)
	}
	return nil
}

// refuses returns why an address is not dialled for a name, nil if it is.
func (p Policy) refuses(name string, at netip.Addr) *refusal {
	at = at.WithZone("").Unmap()
	if p.deny.has(name, at) {
		return p.denied(func(r *rules) bool { return r.has(name, at) }, func(p Policy, name string) *refusal { return p.refuses(name, at) }, name)
	}
	class := ClassOf(at)
	opens := func(network netip.Prefix) bool { return !class.guarded() || class == Reserved || class.all(network) }
	switch {
	case slices.Contains(p.allow.classes, class), !p.listed && !class.guarded(), p.allow.hasNetwork(at, opens),
		!class.guarded() && p.allow.hasHost(name):
		return nil
	case class.guarded() && class != Reserved:
		return p.unlisted(string(class)+" addresses are not in its list", string(class))
	case name == "" || class == Reserved:
		return p.unlisted("the host is not in its list", at.String())
	}
	return p.unlisted("the host is not in its list", name)
}

// denied returns the refusal by an item with a !, which speaks says that it is; without these the list may still refuse.
func (p Policy) denied(speaks func(*rules) bool, refuses func(Policy, string) *refusal, name string) *refusal {
	var without, by []string
	for item := range strings.SplitSeq(p.text, ",") {
		var r rules
		if said, deny := strings.CutPrefix(item, "!"); deny && r.add(said) == nil && speaks(&r) {
			by = append(by, item)
			continue
		}
		without = append(without, item)
	}
	found := &refusal{"by " + strings.Join(by, " and "), cmp.Or(strings.Join(without, ","), byDefault)}
	if still := refuses(MustParse(found.list), name); still != nil {
		found.list = still.list
	}
	return found
}

// unlisted returns the refusal of what would have to be another item of the list.
func (p Policy) unlisted(why, item string) *refusal {
	switch {
	case p.text == noneWord:
		return &refusal{why, item}
	case !p.listed:
		return &refusal{why, strings.TrimSuffix(byDefault+","+p.text, ",") + "," + item}
	}
	return &refusal{why, p.text + "," + item}
}
