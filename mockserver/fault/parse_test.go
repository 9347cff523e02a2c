package fault

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		json string
		want Rule
		back string // what it is written as; "" is as it was read
	}{
		{
			name: "drop strikes before, once", json: `{"event":"run:start","action":"drop"}`,
			want: Rule{Event: "run:start", Action: Drop, When: Before, Count: 1},
			back: `{"event":"run:start","count":1,"action":"drop","when":"before"}`,
		},
		{
			name: "everything",
			json: `{"event":"step:complete","run":"r1","worker":"w","over":10,"skip":2,"count":3,"probability":0.5,"action":"restart","when":"after","delay":"1m30s","code":1006}`,
			want: Rule{
				Event: "step:complete", Run: "r1", Worker: "w", Over: 10, Skip: 2, Count: 3, Probability: 0.5,
				Action: Restart, When: After, Delay: 90 * time.Second, Code: 1006,
			},
		},
		{
			name: "a probability has no limit", json: `{"topic":"run:*","probability":1,"action":"withhold"}`,
			want: Rule{Topic: "run:*", Probability: 1, Count: -1, Action: Withhold, When: After},
			back: `{"topic":"run:*","count":-1,"probability":1,"action":"withhold","when":"after"}`,
		},
		{
			name: "a bare string", json: `{"count":1,"action":"refuse","when":"before","response":"no"}`,
			want: Rule{Count: 1, Action: Refuse, When: Before, Response: json.RawMessage(`"no"`)},
		},
		{
			name: "null", json: `{"count":1,"action":"refuse","when":"before","response":null}`,
			want: Rule{Count: 1, Action: Refuse, When: Before, Response: json.RawMessage(`null`)},
		},
		{
			name: "kick", json: `{"event":"now","action":"close"}`,
			want: Rule{Event: Now, Count: 1, Action: Close, When: Before, Code: 1000},
			back: `{"event":"now","count":1,"action":"close","when":"before","code":1000}`,
		},
		{
			name: "refused upgrade", json: `{"event":"connect","action":"refuse"}`,
			want: Rule{Event: Connect, Count: 1, Action: Refuse, When: Before, Code: 503},
			back: `{"event":"connect","count":1,"action":"refuse","when":"before","code":503}`,
		},
		{
			name: "reorder", json: `{"action":"reorder"}`,
			want: Rule{Count: 1, Action: Reorder, When: After, Delay: time.Second},
			back: `{"count":1,"action":"reorder","when":"after","delay":"1s"}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(tt.json))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
			if tt.back == "" {
				tt.back = tt.json
			}
			written, err := json.Marshal(got)
			require.NoError(t, err)
			require.Equal(t, tt.back, string(written))
			again, err := Parse(written)
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

func TestBadRules(t *testing.T) {
	tests := []struct {
		name  string
		json  string
		field string
		want  string // a part of the reason
	}{
		{name: "no object", json: `[]`, field: "fault", want: "must be a JSON object"},
		{name: "null", json: `null`, field: "fault", want: "must be a JSON object"},
		{name: "empty", json: `{}`, field: "action", want: "can't be blank"},
		{name: "unknown action", json: `{"action":"explode"}`, field: "action", want: "must be one of [answer close crash delay double drop"},
		{name: "unknown field", json: `{"action":"drop","evnt":"claim"}`, field: "fault", want: `has the unknown field "evnt": the fields are event, topic`},
		{name: "a number of one's own", json: `{"action":"drop","id":7}`, field: "fault", want: `unknown field "id"`},
		{name: "unknown event", json: `{"action":"drop","event":"step:began"}`, field: "event", want: "must be one of now, connect, join"},
		{name: "event no string", json: `{"action":"drop","event":7}`, field: "event", want: "must be a string"},
		{name: "count no number", json: `{"action":"drop","count":"2"}`, field: "count", want: "must be a whole number"},
		{name: "half a count", json: `{"action":"drop","count":0.5}`, field: "count", want: "must be a whole number"},
		{name: "chance no number", json: `{"action":"drop","probability":"high"}`, field: "probability", want: "must be a number"},
		{name: "chance too high", json: `{"action":"drop","probability":1.1}`, field: "probability", want: "must be between 0 and 1"},
		{name: "chance negative", json: `{"action":"drop","probability":-0.1}`, field: "probability", want: "must be between 0 and 1"},
		{name: "skip", json: `{"action":"drop","skip":-1}`, field: "skip", want: "must not be negative"},
		{name: "over", json: `{"action":"drop","over":-1}`, field: "over", want: "must not be negative"},
		{name: "star", json: `{"action":"drop","topic":"run:*:x"}`, field: "topic", want: "can have a * at its end only"},
		{name: "run and topic", json: `{"action":"drop","topic":"run:*","run":"r1"}`, field: "topic", want: "together with run"},
		{name: "crash of a heartbeat", json: `{"action":"crash","event":"heartbeat"}`, field: "event", want: "can't be heartbeat for the action crash"},
		{name: "refused leave", json: `{"action":"refuse","event":"leave","response":1}`, field: "event", want: "can't be leave for the action refuse"},
		{name: "crash of nothing", json: `{"action":"crash","event":"now"}`, field: "event", want: "can't be now"},
		{name: "stalled upgrade", json: `{"action":"stall","event":"connect","delay":"1s"}`, field: "event", want: "can't be connect"},
		{name: "expiry of nobody's token", json: `{"action":"expire","event":"claim"}`, field: "event", want: "can't be claim"},
		{name: "expiry now", json: `{"action":"expire","event":"now"}`, field: "run", want: "can't be blank"},
		{name: "heartbeat of a run", json: `{"action":"drop","event":"heartbeat","run":"r1"}`, field: "run", want: "can't be set for the event heartbeat"},
		{name: "now, often", json: `{"action":"drop","event":"now","count":2}`, field: "event", want: "now happens once"},
		{name: "restart of one", json: `{"action":"restart","event":"now","worker":"w"}`, field: "worker", want: "it is for all"},
		{name: "unknown moment", json: `{"action":"drop","when":"never"}`, field: "when", want: "must be one of [before after] for the action drop"},
		{name: "refused after", json: `{"action":"refuse","when":"after","response":1}`, field: "when", want: "must be one of [before] for the action refuse"},
		{name: "no delay", json: `{"action":"delay"}`, field: "delay", want: "can't be blank"},
		{name: "delay is a number", json: `{"action":"delay","delay":15}`, field: "delay", want: "must be a string"},
		{name: "delay is no time", json: `{"action":"delay","delay":"long"}`, field: "delay", want: `must be a time such as "500ms"`},
		{name: "delay negative", json: `{"action":"delay","delay":"-1s"}`, field: "delay", want: "must not be negative"},
		{name: "delay of a drop", json: `{"action":"drop","delay":"1s"}`, field: "delay", want: "can't be set for the action drop"},
		{name: "code of a drop", json: `{"action":"drop","code":1006}`, field: "code", want: "can't be set for the action drop"},
		{name: "code that cannot be sent", json: `{"action":"close","code":1006}`, field: "code", want: "use the action drop for 1006"},
		{name: "no close code", json: `{"action":"restart","code":999}`, field: "code", want: "1000 to 4999"},
		{name: "no HTTP error", json: `{"action":"refuse","event":"connect","code":200}`, field: "code", want: "from 400 to 599"},
		{name: "code of a refused push", json: `{"action":"refuse","response":1,"code":503}`, field: "code", want: "can't be set for the action refuse"},
		{name: "no response", json: `{"action":"refuse"}`, field: "response", want: "can't be blank"},
		{name: "no answer", json: `{"action":"answer","event":"claim"}`, field: "response", want: "can't be blank"},
		{name: "answer to a join", json: `{"action":"answer","event":"join","response":{}}`, field: "event", want: "can't be join for the action answer"},
		{name: "response of a drop", json: `{"action":"drop","response":1}`, field: "response", want: "can't be set for the action drop"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.json))
			var invalid *InvalidError
			require.ErrorAs(t, err, &invalid)
			require.Equal(t, tt.field, invalid.Field, err)
			require.Contains(t, invalid.Reason, tt.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestBadResponseInGo(t *testing.T) {
	_, _, err := NewSet(1).Add(Rule{Action: Refuse, Response: json.RawMessage(`{`)})
	require.EqualError(t, err, "bad fault: response must be JSON")
}
