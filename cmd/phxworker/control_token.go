package main

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/phxworker/phxworker/cmd/phxworker/token"
)

// findToken looks for the token that a worker of this machine keeps for its user. The
// token is for that worker alone: it is sent to no other address than the one that it
// was found for.
func (r *remote) findToken(ctx context.Context, folders []string) {
	for _, at := range r.here(ctx) {
		found, err := token.Find(folders, at)
		if err != nil {
			r.noToken = err.Error()
			continue
		}
		r.token, r.tokenFile, r.noToken = found.Token, found.Path, ""
		r.wire.Proxy = nil
		r.wire.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at.String())
		}
		return
	}
}

// here returns the addresses of this machine that the worker's URL leads to, none for
// a worker elsewhere.
func (r *remote) here(ctx context.Context) (all []netip.AddrPort) {
	u, err := url.Parse(r.address)
	if err != nil || u.Scheme != "http" { // no worker speaks TLS: what does stands before it
		return nil
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		port = 80
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil // to be told when the worker is asked
	}
	own, _ := net.InterfaceAddrs() // without any, there is loopback
	for _, addr := range addresses {
		addr = addr.Unmap()
		mine := func(of net.Addr) bool {
			network, err := netip.ParsePrefix(of.String())
			return err == nil && network.Addr().Unmap() == addr.WithZone("")
		}
		if addr.IsLoopback() || slices.ContainsFunc(own, mine) {
			all = append(all, netip.AddrPortFrom(addr, uint16(port)))
		}
	}
	return all
}
