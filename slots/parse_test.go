package slots_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name     string
		spec     string
		groups   []slots.Group
		warnings []string // a part of each, in order
	}{
		{
			name: "two groups",
			spec: "fast_lane:1 manual>*:4",
			groups: []slots.Group{
				{Name: "fast_lane", Queues: []string{"fast_lane"}, Slots: 1},
				{Name: "manual>*", Queues: []string{"manual", "*"}, Slots: 4},
			},
		},
		{
			name: "the older comma is the same preference",
			spec: "fast_lane:1 manual,*:4",
			groups: []slots.Group{
				{Name: "fast_lane", Queues: []string{"fast_lane"}, Slots: 1},
				{Name: "manual>*", Queues: []string{"manual", "*"}, Slots: 4},
			},
		},
		{
			name:   "any queue",
			spec:   "*:2",
			groups: []slots.Group{{Name: "*", Queues: []string{"*"}, Slots: 2}},
		},
		{
			name:   "white space around and leading zeros",
			spec:   "\t manual>fast_lane>default>*:007\r\n",
			groups: []slots.Group{{Name: "manual>fast_lane>default>*", Queues: []string{"manual", "fast_lane", "default", "*"}, Slots: 7}},
		},
		{
			name:     "a queue twice in a group",
			spec:     "manual>default>manual>manual>*:1",
			groups:   []slots.Group{{Name: "manual>default>*", Queues: []string{"manual", "default", "*"}, Slots: 1}},
			warnings: []string{`slot group "manual>default>manual>manual>*:1": queue "manual" is named more than once`},
		},
		{
			name: "two groups alike, though written differently",
			spec: "manual>*:1 manual,*:2 manual>*:3",
			groups: []slots.Group{
				{Name: "manual>*", Queues: []string{"manual", "*"}, Slots: 6},
			},
			warnings: []string{`slot group "manual>*" is there more than once`, `slot group "manual>*" is there more than once`},
		},
		{
			name: "queues that Lightning does not know, each told once",
			spec: "Manual>slow:1 slow>*:1",
			groups: []slots.Group{
				{Name: "Manual>slow", Queues: []string{"Manual", "slow"}, Slots: 1},
				{Name: "slow>*", Queues: []string{"slow", "*"}, Slots: 1},
			},
			warnings: []string{`queue "Manual" is not one of Lightning's`, `queue "slow" is not one of Lightning's`},
		},
		{
			name:     "no group takes the other queues",
			spec:     "manual:1",
			groups:   []slots.Group{{Name: "manual", Queues: []string{"manual"}, Slots: 1}},
			warnings: []string{`no slot group has "*"`},
		},
		{
			name:   "the most slots there can be",
			spec:   "*:1000000",
			groups: []slots.Group{{Name: "*", Queues: []string{"*"}, Slots: slots.MaxGroupSlots}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, err := slots.Parse(tt.spec)
			require.NoError(t, err)
			groups, warnings, err := slots.Check(groups)
			require.NoError(t, err)
			require.Equal(t, tt.groups, groups)
			require.Len(t, warnings, len(tt.warnings), "%q", warnings)
			for i, part := range tt.warnings {
				require.Contains(t, warnings[i], part)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name    string
		spec    string
		group   string
		token   string
		problem string
	}{
		{name: "an empty text", spec: "", group: "", token: "", problem: "no group"},
		{name: "white space only", spec: " \t\n", group: " \t\n", token: " \t\n", problem: "no group"},
		{name: "no count", spec: "fast_lane:1 manual>*", group: "manual>*", token: "manual>*", problem: "is missing"},
		{name: "an empty count", spec: "manual:", group: "manual:", token: "", problem: "not a number"},
		{name: "a count of zero", spec: "manual:0", group: "manual:0", token: "0", problem: "not a number"},
		{name: "a negative count", spec: "manual:-1", group: "manual:-1", token: "-1", problem: "not a number"},
		{name: "a count with a sign", spec: "manual:+1", group: "manual:+1", token: "+1", problem: "not a number"},
		{name: "a count with a fraction", spec: "manual:1.5", group: "manual:1.5", token: "1.5", problem: "not a number"},
		{name: "a count in another script", spec: "manual:٣", group: "manual:٣", token: "٣", problem: "not a number"},
		{name: "too many slots", spec: "manual:1000001", group: "manual:1000001", token: "1000001", problem: "not a number"},
		{name: "a count that overflows", spec: "*:99999999999999999999", group: "*:99999999999999999999", token: "99999999999999999999", problem: "not a number"},
		{name: "no queue at all", spec: ":4", group: ":4", token: "", problem: "empty queue name"},
		{name: "nothing before the separator", spec: ">*:4", group: ">*:4", token: ">*", problem: "empty queue name"},
		{name: "nothing after the separator", spec: "manual>:4", group: "manual>:4", token: "manual>", problem: "empty queue name"},
		{name: "nothing between separators", spec: "manual,>*:4", group: "manual,>*:4", token: "manual,>*", problem: "empty queue name"},
		{name: "spaces around the separator", spec: "manual > *:4", group: "manual", token: "manual", problem: "is missing"},
		{name: "the wildcard first", spec: "*>manual:4", group: "*>manual:4", token: "*>manual", problem: `queue after "*"`},
		{name: "the wildcard twice", spec: "*>*:4", group: "*>*:4", token: "*>*", problem: `queue after "*"`},
		{name: "a dash in a name", spec: "*:1 fast-lane>*:1", group: "fast-lane>*:1", token: "fast-lane", problem: "not a queue name"},
		{name: "a wildcard inside a name", spec: "man*:1", group: "man*:1", token: "man*", problem: "not a queue name"},
		{name: "letters beyond ASCII", spec: "grün:1", group: "grün:1", token: "grün", problem: "not a queue name"},
		{name: "a forgotten space", spec: "fast_lane:1manual:4", group: "fast_lane:1manual:4", token: "fast_lane:1manual", problem: "not a queue name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, err := slots.Parse(tt.spec)
			require.Empty(t, groups)
			var syntax *slots.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Equal(t, tt.group, syntax.Group)
			require.Equal(t, tt.token, syntax.Token)
			require.Contains(t, syntax.Problem, tt.problem)
			require.NotEmpty(t, syntax.Remedy)
		})
	}
}

func TestSyntaxErrorQuotesTheTokenAndSaysWhatToDo(t *testing.T) {
	_, err := slots.Parse("fast-lane:1 manual>*:4")
	require.EqualError(t, err, `slot group "fast-lane:1": "fast-lane" is not a queue name; use letters, digits and "_", ">" between queues and a space between groups`)

	_, err = slots.Parse("manual")
	require.EqualError(t, err, `slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`)
}

func TestPlainCapacityIsTheGroupItStandsFor(t *testing.T) {
	groups, warnings, err := slots.Check(slots.MustParse("manual>*:5"))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, groups, slots.Plain(5))
}

// A group that was written by hand is taken as one that was read, and gets its name.
func TestGroupsWrittenByHand(t *testing.T) {
	written := []slots.Group{{Queues: []string{"manual", "manual", "*"}, Slots: 4}, {Name: "another", Queues: []string{"fast_lane"}, Slots: 1}}
	groups, warnings, err := slots.Check(written)
	require.NoError(t, err)
	require.Equal(t, slots.MustParse("manual>*:4 fast_lane:1"), groups)
	require.Len(t, warnings, 1)
	require.Empty(t, written[0].Name, "it is the caller's")

	for want, group := range map[string]slots.Group{
		`slot group ":1": "" has no queues; fill in Queues`: {Slots: 1},
		`"a:1" has no queues; fill in Queues`:               {Name: "a:1", Slots: 1},
		`slot group "a:0": "0" is not a number of slots`:    {Queues: []string{"a"}},
		`slot group "a:-1": "-1" is not a number of slots`:  {Queues: []string{"a"}, Slots: -1},
		`slot group "a b:1": "a b" is not a queue name`:     {Queues: []string{"a b"}, Slots: 1},
		`slot group "*>a:1": "*>a" has a queue after "*"`:   {Queues: []string{"*", "a"}, Slots: 1},
		`slot group "a:1000001": "1000001" is not a number`: {Queues: []string{"a"}, Slots: slots.MaxGroupSlots + 1},
	} {
		_, _, err := slots.Check([]slots.Group{group})
		require.ErrorContains(t, err, want)
	}
	_, _, err = slots.Check([]slots.Group{{Queues: []string{"a"}, Slots: slots.MaxGroupSlots}, {Queues: []string{"a"}, Slots: 1}})
	require.ErrorContains(t, err, `slot group "a:1000001": "1000001" is not a number of slots`, "nor are those of two that are one")
	require.PanicsWithError(t, `slot group "a": the number of slots is missing; write it after a colon, with no space before it: "a:1"`, func() { slots.MustParse("a") })
}

// FuzzParse guards what holds for any text: no panic, a refusal that says what
// it is about, and groups that mean the same when written down and read again.
func FuzzParse(f *testing.F) {
	for _, spec := range []string{
		"", " ", "fast_lane:1 manual>*:4", "fast_lane:1 manual,*:4", "*:1", "manual>manual>*:2 manual>*:3",
		"manual", ":1", "a>:1", "*>a:1", "a:0", "a:-1", "a:1.5", "a:99999999999999999999", "a b:1", "a:b:1", "\x00:1", "é:1", "a>,b:1",
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		groups, err := slots.Parse(spec)
		if err != nil {
			var syntax *slots.SyntaxError
			require.ErrorAs(t, err, &syntax)
			require.Contains(t, spec, syntax.Group)
			require.Contains(t, syntax.Group, syntax.Token)
			require.Empty(t, groups)
			return
		}
		require.NotEmpty(t, groups)
		for _, g := range groups {
			require.Equal(t, strings.Join(g.Queues, ">"), g.Name)
			require.Positive(t, g.Slots)
			require.LessOrEqual(t, g.Slots, slots.MaxGroupSlots)
			require.NotContains(t, g.Queues[:len(g.Queues)-1], "*")
		}
		again, err := slots.Parse(slots.Format(groups))
		require.NoError(t, err)
		require.Equal(t, groups, again)
	})
}
