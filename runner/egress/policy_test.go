package egress

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhereJobsMayConnectTo(t *testing.T) {
	tests := []struct {
		list    string
		name    string // "" for none
		address string
		refused bool
	}{
		{"", "", "93.184.216.34", false},
		{"", "", "2606:2800:220:1::1", false},
		{"", "", "10.1.2.3", false},
		{"", "", "100.64.0.7", false},
		{"", "", "fd12::7", false},
		{"", "", "127.0.0.1", true},
		{"", "", "127.8.9.1", true},
		{"", "", "::1", true},
		{"", "", "::", true},
		{"", "", "0.0.0.0", true},
		{"", "", "0.1.2.3", true},
		{"", "", "::ffff:127.0.0.1", true},
		{"", "", "::127.0.0.1", true},
		{"", "", "64:ff9b::7f00:1", true},
		{"", "", "64:ff9b::808:808", false},
		{"", "", "::ffff:0:7f00:1", true},
		{"", "", "2002:7f00:1::", true},
		{"", "", "2002:a9fe:a9fe::1", true},
		{"", "", "64:ff9b:1::7f00:1", true},
		{"", "", "169.254.169.254", true},
		{"", "", "169.254.1.1", true},
		{"", "", "fe80::1%eth0", true},
		{"", "", "fd00:ec2::254", true},
		{"", "", "100.100.100.200", true},
		{"", "", "168.63.129.16", true},
		{"", "", "224.0.0.1", true},
		{"", "", "255.255.255.255", true},
		{"", "", "ff02::1", true},
		{"any", "", "127.0.0.1", false},
		{"any", "", "169.254.169.254", false},
		{"any", "", "224.0.0.1", false},
		{"any,!127.0.0.1", "", "127.0.0.1", true},
		{"any,!127.0.0.1", "", "::ffff:127.0.0.1", true},
		{"any,!127.0.0.1", "", "64:ff9b::7f00:1", true},
		{"any,!metadata", "", "169.254.169.254", true},
		{"none", "", "93.184.216.34", true},
		{"none", "fhir.clinic.example", "93.184.216.34", true},
		{"public", "", "10.1.2.3", true},
		{"public", "", "93.184.216.34", false},
		{"public,private,loopback", "", "127.0.0.1", false},
		{"localhost", "localhost", "127.0.0.1", false},
		{"localhost", "", "93.184.216.34", true},
		{"127.0.0.1", "", "127.0.0.1", false},
		{"127.0.0.1", "", "127.0.0.2", true},
		{"127.0.0.1", "", "93.184.216.34", true},
		{"[::1]", "", "::1", false},
		{"!10.0.0.0/8", "", "10.1.2.3", true},
		{"!10.0.0.0/8", "", "93.184.216.34", false},
		{"!10.0.0.0/8", "", "127.0.0.1", true},
		{"!localhost,!127.0.0.0/8", "", "127.0.0.1", true},
		{"!Loopback", "", "127.0.0.1", true},
		{"10.1.0.0/16,!10.0.0.0/8", "", "10.1.2.3", true},
		{"10.1.0.0/16", "", "10.1.2.3", false},
		{"10.1.0.0/16", "", "10.2.2.3", true},
		{"::ffff:10.1.0.0/112", "", "10.1.2.3", false},
		// What is guarded is opened by what is guarded as a whole only.
		{"0.0.0.0/0", "", "8.8.8.8", false},
		{"0.0.0.0/0", "", "127.0.0.1", true},
		{"100.64.0.0/10", "", "100.100.100.200", true},
		{"169.254.0.0/16", "", "169.254.1.1", false},
		{"169.254.0.0/16", "", "169.254.169.254", true},
		{"link-local", "", "169.254.169.254", true},
		{"169.254.169.254", "", "169.254.169.254", false},
		{"198.18.0.0/15", "", "198.18.0.1", false},
		// Names.
		{"fhir.clinic.example", "fhir.clinic.example", "93.184.216.34", false},
		{"FHIR.Clinic.Example.", "fhir.clinic.example", "10.1.2.3", false},
		{"fhir.clinic.example", "other.clinic.example", "93.184.216.34", true},
		{"fhir.clinic.example", "", "93.184.216.34", true},
		{"fhir.clinic.example", "fhir.clinic.example", "127.0.0.1", true},
		{"fhir.clinic.example", "fhir.clinic.example", "169.254.169.254", true},
		{"*.clinic.example", "a.b.clinic.example", "93.184.216.34", false},
		{"*.clinic.example", "clinic.example", "93.184.216.34", true},
		{"*.clinic.example", "evilclinic.example", "93.184.216.34", true},
		{"bücher.example", "xn--bcher-kva.example", "93.184.216.34", false},
		{"my_service", "my_service", "10.1.2.3", false},
		{"public,!*.evil.example", "a.evil.example", "93.184.216.34", true},
		{"public,!*.evil.example", "evil.example", "93.184.216.34", false},
		{"!evil.example", "evil.example", "93.184.216.34", true},
		{"!evil.example", "good.example", "10.1.2.3", false},
	}
	for _, tt := range tests {
		t.Run(tt.list+" "+tt.name+" "+tt.address, func(t *testing.T) {
			policy, err := Parse(strings.FieldsFunc(tt.list, func(r rune) bool { return r == ',' }))
			require.NoError(t, err)
			why := policy.refusesName(tt.name)
			if why == nil {
				why = policy.refuses(tt.name, netip.MustParseAddr(tt.address))
			}
			require.Equal(t, tt.refused, why != nil)
			if why == nil {
				return
			}
			lifted := MustParse(why.list) // what a person is told to write lets the job there
			require.Nil(t, lifted.refusesName(tt.name), why.list)
			require.Nil(t, lifted.refuses(tt.name, netip.MustParseAddr(tt.address)), why.list)
		})
	}
}

func TestAListThatCannotBeReadIsRefused(t *testing.T) {
	for item, want := range map[string]string{
		"http://fhir.example":   `"http://fhir.example" is a URL: write its host alone`,
		"10.0.0.0/33":           `"10.0.0.0/33" is no network: write one such as 10.1.0.0/16`,
		"fhir.example/path":     `"fhir.example/path" is no network: write one such as 10.1.0.0/16`,
		"fhir.example:8080":     `"fhir.example:8080" has a port, or is no address: write the host alone`,
		"10.0.0":                `"10.0.0" is no address: write all four numbers, or a network such as 10.1.0.0/16`,
		"10.0.0.256":            `"10.0.0.256" is no address: write all four numbers, or a network such as 10.1.0.0/16`,
		"a.*.example":           `is no host, network or word`,
		"*":                     `is no host, network or word`,
		"!":                     `is no host, network or word`,
		"!any":                  `"!any" is not known: none refuses all`,
		"!!evil.example":        `is no host, network or word`,
		"user@evil.example":     `is no host, network or word`,
		"fe80::1%eth0":          `has a port, or is no address`,
		"-10.0.0.0/8":           `is no network`,
		strings.Repeat("a", 70): `is no host, network or word`,
	} {
		_, err := Parse([]string{item})
		require.ErrorContains(t, err, want, item)
	}
	_, err := Parse([]string{"none", "public"})
	require.EqualError(t, err, `"none" stands alone`)
}

// Whatever a list says, what it refuses stays refused, and nothing panics.
func FuzzPolicy(f *testing.F) {
	f.Add("public,!*.evil.example,10.0.0.0/8", "a.evil.example", []byte{127, 0, 0, 1})
	f.Add("any,!::/0", "", []byte{0, 100, 255, 155, 0, 0, 0, 0, 0, 0, 0, 0, 127, 0, 0, 1})
	f.Fuzz(func(t *testing.T, list, name string, bytes []byte) {
		policy, err := Parse(strings.Split(list, ","))
		at, ok := netip.AddrFromSlice(bytes)
		if err != nil || !ok {
			return
		}
		without, err := Parse(append(strings.Split(list, ","), "!"+plain(at).String()))
		if err == nil {
			require.NotNil(t, without.refuses(name, at))
		}
		guarded := !strings.ContainsAny(strings.ToLower(list), "acdeloy0123456789") // no word but none
		require.False(t, guarded && ClassOf(at).guarded() && policy.refuses(name, at) == nil)
	})
}
