package mockserver_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

func TestHTTPOfThePool(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"queued", "mine", "plain"}, func(t *testing.T, m *inMemory) {
		ask := func(method, path, body string, status int, want string) {
			t.Helper()
			got, text := call(t, m, method, path, body)
			require.Equal(t, status, got, text)
			require.Equal(t, want+"\n", text)
		}
		ask("POST", "/run/queued/cancel", ``, 200, `{"id":"queued","state":"cancelled"}`)
		ask("POST", "/run/queued/cancel", ``, 409, `{"error":"run \"queued\" is cancelled: it is over already"}`)
		ask("POST", "/run/queued/notify", `{}`, 409, `{"error":"run \"queued\" is cancelled: it is over already"}`)
		ask("POST", "/run/nope/cancel", ``, 404, `{"error":"no such run: it was never queued, or it ended and is forgotten"}`)
		ask("POST", "/run/nope/notify", `{}`, 404, `{"error":"no such run: it was never queued, or it ended and is forgotten"}`)
		ask("GET", "/workers", ``, 200, `{"workers":[]}`)

		c := m.queued("w", everyQueueExtension)
		c.begin()
		ask("POST", "/run/mine/cancel", `{"message":7}`, 422, `{"errors":{"message":["must be a string"]}}`)
		ask("POST", "/run/mine/cancel", `{`, 400, `{"error":"the body is not JSON: unexpected end of JSON input"}`)
		ask("POST", "/run/mine/cancel", `{"message":"enough"}`, 202, `{"id":"mine","state":"started"}`)
		require.Equal(t, []string{`{"message":"enough"}`}, c.pushed("run:mine", "run:cancel"))
		ask("POST", "/run/mine/notify", `[]`, 422, `{"error":"a notification must be a JSON object"}`)
		ask("POST", "/run/mine/notify", ``, 400, `{"error":"the body is empty: send JSON"}`)
		ask("POST", "/run/mine/notify", ` {"speed": 2} `, 200, `{"id":"mine"}`)
		require.Equal(t, []string{`{"speed": 2}`}, c.pushed("run:mine", "run:notify"))

		require.Equal(t, "ok {}", c.joinRun(c.claim(), ``))
		ask("POST", "/run/plain/cancel", ``, 422, `{"error":"the worker of run \"plain\" has not agreed on the extension cancel with the server"}`)
		ask("POST", "/drain", ``, 200, `{"workers":1}`)
		_, workers := call(t, m, "GET", "/workers", "")
		require.Contains(t, workers, `"id":"w","name":"w","joins":1,"waiting_claims":0`)
		require.Contains(t, workers, `"runs":["mine","plain"],"drained":true`)
	})
}

func TestHTTPWait(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *inMemory) {
		c := m.queued("w", everyQueueExtension)
		type answer struct {
			status int
			body   string
		}
		post := func(query, body string) <-chan answer {
			came := make(chan answer, 1)
			go func() {
				status, text := call(t, m, "POST", "/run?"+query, body)
				came <- answer{status, text}
			}()
			synctest.Wait()
			return came
		}
		came := post("wait", `{"id":"r1","key":"k","jobs":[]}`)
		require.Equal(t, `ok {"id":"r1","jobs":[]}`, func() string { r := c.begin(); return c.answer(r.topic(), "fetch:plan", `{}`) }())
		require.Empty(t, came)
		require.Equal(t, "ok", c.ask("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no"}`).Status)
		require.Equal(t, answer{200, `{"id":"r1","state":"failed","reason":"fail","error_type":"JobError","error_message":"no"}` + "\n"}, <-came)
		require.Equal(t, "k", m.record("r1").Key)

		for query, patience := range map[string]time.Duration{"wait": 40 * time.Second, "wait=1.5": 1500 * time.Millisecond} {
			came = post(query, `{"id":"`+query+`","jobs":[]}`)
			pass(patience - time.Millisecond)
			require.Empty(t, came)
			pass(time.Millisecond)
			got := <-came
			require.Equal(t, 504, got.status)
			require.Equal(t, `{"error":"run \"`+query+`\" has not ended within `+patience.String()+`; it stays, see GET /run/{id}","id":"`+query+`"}`+"\n", got.body)
			require.Equal(t, mockserver.State("available"), m.record(query).State)
		}
		for query, status := range map[string]int{"wait=soon": 422, "wait=0": 422, "wait=-1": 422, "wait=NaN": 422, "wait=1e9": 422} {
			require.Equal(t, answer{status, `{"errors":{"wait":["must be a number of seconds, at most an hour"]}}` + "\n"}, <-post(query, `{"id":"bad","jobs":[]}`))
		}
		require.Equal(t, 409, (<-post("wait", `{"id":"r1","jobs":[]}`)).status)
		require.Equal(t, answer{422, `{"errors":{"key":["must be a string"]}}` + "\n"}, <-post("", `{"key":7,"jobs":[]}`))
	})
}
