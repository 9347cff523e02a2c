package slots_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/slots"
)

func TestJoinPayloadCarriesTheMap(t *testing.T) {
	tests := []struct {
		name string
		spec string
		json string
	}{
		{name: "two groups", spec: "fast_lane:1 manual>*:4", json: `{"capacity":5,"queues":{"fast_lane":1,"manual>*":4}}`},
		{name: "the older comma", spec: "fast_lane:1 manual,*:4", json: `{"capacity":5,"queues":{"fast_lane":1,"manual>*":4}}`},
		{name: "groups alike are added up", spec: "manual>*:1 default:2 manual,*:3", json: `{"capacity":6,"queues":{"default":2,"manual>*":4}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, err := slots.Parse(tt.spec)
			require.NoError(t, err)
			got, err := json.Marshal(slots.NewJoinPayload(groups))
			require.NoError(t, err)
			// encoding/json writes ">" as \u003e, which is the same string.
			require.JSONEq(t, tt.json, string(got))
		})
	}
}

func TestJoinPayloadWithoutGroupsHasAnEmptyMap(t *testing.T) {
	got, err := json.Marshal(slots.NewJoinPayload(nil))
	require.NoError(t, err)
	require.Equal(t, `{"capacity":0,"queues":{}}`, string(got))
}

func TestPlainCapacityIsTheGroupItStandsFor(t *testing.T) {
	groups, warnings, err := slots.Check(slots.MustParse("manual>*:5"))
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, groups, slots.Plain(5))
	require.Equal(t, slots.NewJoinPayload(groups), slots.NewJoinPayload(slots.Plain(5)))
}
