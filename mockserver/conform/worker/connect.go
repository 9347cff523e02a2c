package worker

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// connectTrials are about the socket: how it is opened, kept, and opened again.
func connectTrials() []trial {
	trials := []trial{
		{Case: suite.Case{
			ID: "W1.1", Title: "it connects to ENDPOINT/websocket with vsn=2.0.0", Level: suite.Must,
			Why:    "Any other serializer is refused, or frames are taken for something else.",
			Source: "Phoenix.Socket.V2.JSONSerializer; phoenix.js appends /websocket",
		}, setup: setup{alone: true}, do: func(l *lab) {
			first := l.firstKnock()
			if first.path != socketPath {
				l.Failf("a request for "+socketPath, "%s", first.path)
			}
			if vsn := first.query.Get("vsn"); !strings.HasPrefix(vsn, "2.0.") {
				l.Failf("the parameter vsn=2.0.0", "vsn=%s", vsn)
			}
		}},
		{Case: suite.Case{
			ID: "W1.2", Title: "its token is signed with the secret and has iss, iat and worker_id", Level: suite.Must,
			Why:    "Lightning answers 401 to any other token, and the worker never works.",
			Source: "Lightning: Lightning.Workers.WorkerToken (HS256 over the bytes of WORKER_SECRET)",
		}, setup: setup{alone: true}, do: checkTokenClaims},
		{Case: suite.Case{
			ID: "W1.3", Title: "its token is good now, and for as long as it may be shown", Level: suite.Should,
			Why:    "A token that begins tomorrow locks the worker out, and so does one that has ended and is shown again, where the server looks at exp.",
			Source: "Lightning checks nbf and never exp; RFC 7519, 4.1.4; ws-worker makes one token at its start and shows it for as long as it lives",
		}, setup: setup{alone: true}, do: checkTokenTimes},
		{Case: suite.Case{
			ID: "W1.4", Title: "it tells api_version and worker_version", Level: suite.Should,
			Why:    "Operators see in Lightning which workers are behind.",
			Source: "Lightning: WorkerSocket.connect/3; ws-worker sends both",
		}, setup: setup{alone: true}, do: func(l *lab) {
			first := l.firstKnock()
			for _, name := range []string{"api_version", "worker_version"} {
				if first.query.Get(name) == "" {
					l.Failf("the parameter "+name, "the parameters %s", list(slices.Sorted(keys(first.query))))
				}
			}
		}},
		{Case: suite.Case{
			ID: "W1.5", Title: "each push has a ref of its own", Level: suite.Must,
			Why:    "A reply is matched to its push by the ref: with two alike, one of them waits for ever.",
			Source: "Phoenix Channels V2: [join_ref, ref, topic, event, payload]",
		}, do: func(l *lab) {
			l.execute(one(codeLog))
			refs := make(map[string]string)
			for _, f := range l.where(func(f seen) bool { return f.sent }) {
				key := fmt.Sprint(f.socket, " ", f.ref)
				if other, taken := refs[key]; taken || f.ref == "" {
					l.Fatalf("no ref twice on one connection", "ref %q of %s and of %s", f.ref, other, f.event)
				}
				refs[key] = f.event
			}
		}},
		{Case: suite.Case{
			ID: "W1.6", Title: "it joins worker:queue again when the channel crashes", Level: suite.Must,
			Why:    "A channel crashes over any exception at the server; a worker that stays away claims nothing any more.",
			Source: "Phoenix: phx_error ends the topic and not the socket; phoenix.js rejoins with a new join_ref",
		}, setup: setup{faults: []fault.Rule{{Event: "claim", Action: fault.Crash}}}, do: func(l *lab) {
			l.server.Wake()
			l.awaitBack(1)
			joins := l.joins(queueTopic)
			if first, last := joins[0], joins[len(joins)-1]; first.socket == last.socket && first.joinRef == last.joinRef {
				l.Failf("another join_ref with the second join", "%s again", last.joinRef)
			}
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W1.7", Title: "it tries again when the join of worker:queue crashes", Level: suite.Must,
			Why:    "A server that starts answers its first joins with an exception; nobody restarts the workers for that.",
			Source: "Phoenix: a join that raises is refused with \"join crashed\"; phoenix.js tries again",
		}, setup: setup{faults: []fault.Rule{{Event: fault.Join, Topic: queueTopic, Action: fault.Crash, Count: 2}}}, do: func(l *lab) {
			l.reason(l.execute(one(codeCount)), "success")
		}},
		{Case: suite.Case{
			ID: "W1.8", Title: "attempts to connect come ever later", Level: suite.Should,
			Why:    "A server that comes up again under the attempts of all its workers goes down again.",
			Source: "phoenix.js: reconnectAfterMs grows",
			Limit:  60 * time.Second,
		}, setup: setup{alone: true, refuse: always(http.StatusServiceUnavailable)}, do: checkGrowth},
		{Case: suite.Case{
			ID: "W1.9", Title: "two workers do not come back in the same moment", Level: suite.May,
			Why:    "A hundred workers that were cut off together come back together, and the server falls over.",
			Source: "phxworker: a back-off with jitter; phoenix.js has none",
			Limit:  40 * time.Second,
		}, do: checkSpread},
		{Case: suite.Case{
			ID: "W1.10", Title: "its secret and tokens are not in what it writes", Level: suite.Must,
			Why:    "Logs are passed around, and the secret opens every run of the server.",
			Source: "phxworker: docs/security.md",
		}, do: checkOwnSecrets},
		{Case: suite.Case{
			ID: "W1.20", Title: "it sends a heartbeat within a minute", Level: suite.Must,
			Why:    "Phoenix closes a socket that is silent for 60 s, and with it the topics of all its runs.",
			Source: "Phoenix: the transport's timeout of 60 s; phoenix.js sends one every 30 s",
			Limit:  90 * time.Second, Slow: true,
		}, do: func(l *lab) {
			l.awaitWithin(time.Minute, "a heartbeat on the topic phoenix", func() bool { return len(l.sent("heartbeat")) > 0 })
		}},
		{Case: suite.Case{
			ID: "W1.21", Title: "it opens another connection when heartbeats are not answered", Level: suite.Must,
			Why:    "A connection that a firewall has forgotten looks alive from here; all runs on it wait for ever.",
			Source: "phoenix.js: a heartbeat without a reply by the next one is a time-out",
			Limit:  150 * time.Second, Slow: true,
		}, setup: setup{faults: []fault.Rule{{Event: fault.Heartbeat, Action: fault.Withhold, When: fault.Before, Count: -1}}}, do: func(l *lab) {
			l.awaitBack(1)
		}},
	}
	trials = append(trials, wireTrials()...)
	for i, end := range []struct {
		code int
		what string
		why  string
	}{
		{1000, "after a close with 1000", "Phoenix sends 1000 to a client that it kicks or that was silent; a worker that takes it for a goodbye never comes back (phoenix.js before 1.8)."},
		{1001, "after a close with 1001", "A proxy in between says 1001 when it is restarted."},
		{1011, "after a close with 1011", "Bandit closes with 1011 when a socket's process crashes or is kicked."},
		{1012, "after a close with 1012", "A server that is deployed anew says 1012 to all its workers."},
		{fault.Abnormal, "after a cut without a close", "Networks lose connections every day."},
	} {
		trials = append(trials, trial{Case: suite.Case{
			ID: fmt.Sprintf("W1.%d", 11+i), Title: "it comes back " + end.what, Level: suite.Must,
			Why: end.why, Source: "Phoenix: the close codes of cowboy and bandit; only the client's own close is final",
		}, do: func(l *lab) {
			l.awaitClaim()              // W2.17 is about a claim that is under way
			_ = l.server.Kick(end.code) // the code is a good one
			l.awaitBack(1)
			l.reason(l.execute(one(codeCount)), "success")
		}})
	}
	for i, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable} {
		trials = append(trials, refusedUpgrade(fmt.Sprintf("W1.%d", 16+i), status))
	}
	return trials
}

// wireTrials are about what RFC 6455 and its extension have below the frames of Phoenix.
func wireTrials() []trial {
	return []trial{
		{Case: suite.Case{
			ID: "W1.22", Title: "it reads what is compressed, where it has offered permessage-deflate", Level: suite.Must,
			Why:    "Lightning compresses for whoever offers it: a worker that offers what it cannot read loses its connection over each plan.",
			Source: "RFC 7692; Lightning: the worker's socket has compress: true; ws and phoenix.js in Node offer it",
		}, do: checkDeflate},
		{Case: suite.Case{
			ID: "W1.23", Title: "it answers a ping of the WebSocket", Level: suite.Must,
			Why:    "A proxy in between takes a connection without pongs for dead, and cuts it off with all its runs.",
			Source: "RFC 6455, 5.5.2 and 5.5.3",
		}, do: checkPing},
	}
}

// checkDeflate has the worker read a plan that is long enough to be compressed.
func checkDeflate(l *lab) {
	knocks, _ := l.door.requests()
	if !strings.Contains(knocks[0].extensions, "permessage-deflate") {
		l.Skipf("the worker does not offer permessage-deflate")
	}
	l.reason(l.execute(one(codeCount, fields{"name": strings.Repeat("a long name ", 500)})), "success")
	l.oneConnection()
}

// checkPing cuts the worker off, and meets it with a socket that pings and says nothing else.
func checkPing(l *lab) {
	ponged := make(chan struct{})
	pong := sync.OnceFunc(func() { close(ponged) })
	l.door.lead(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer conn.Close()
		stop := context.AfterFunc(l.Context(), func() { _ = conn.Close() })
		defer stop()
		conn.SetPongHandler(func(data string) error {
			if data == "kit" {
				pong()
			}
			return nil
		})
		_ = conn.WriteControl(websocket.PingMessage, []byte("kit"), time.Now().Add(time.Second))
		for err == nil {
			_, _, err = conn.ReadMessage()
		}
	}))
	l.awaitClaim()                    // W2.17 is about a claim that is under way
	_ = l.server.Kick(fault.Abnormal) // the code is a good one
	l.await("a pong that answers the ping", func() bool {
		select {
		case <-ponged:
			return true
		default:
			return false
		}
	})
}

// refusedUpgrade lets the worker in after it was refused twice.
func refusedUpgrade(id string, status int) trial {
	c := suite.Case{
		ID: id, Title: fmt.Sprintf("it tries again when the socket is refused with %d, or ends with an error", status), Level: suite.Should,
		Why:    "A secret that is being changed is refused for a while; a worker that sits there and does nothing is found by nobody.",
		Source: "Lightning answers 401 to a bad token, stock Phoenix 403",
	}
	mayEnd := true
	if status == http.StatusServiceUnavailable {
		c.Title, c.Level = "it tries again when the socket is refused with 503", suite.Must
		c.Why, c.Source = "Every proxy says 503 while the server behind it starts.", "Phoenix: a draining endpoint; proxies"
		mayEnd = false
	}
	refuse := func(n int) int {
		if n < 2 {
			return status
		}
		return 0
	}
	return trial{Case: c, setup: setup{alone: true, refuse: refuse}, do: func(l *lab) {
		expected := "the worker to connect once it is let in"
		err := l.until(time.Hour, func() bool { return l.inQueue() > 0 })
		knocks, _ := l.door.requests()
		ended := l.exited() && l.worker.err != nil && len(knocks) > 0 // it was refused, and said so
		if err != nil && (!mayEnd || !ended) {
			l.Fatalf(expected, "%s; %s", l.soFar(), err)
		}
	}}
}

func always(status int) func(int) int { return func(int) int { return status } }

func (l *lab) firstKnock() knock {
	l.await("the worker to ask for a socket", func() bool {
		knocks, _ := l.door.requests()
		return len(knocks) > 0
	})
	knocks, _ := l.door.requests()
	return knocks[0]
}

func checkTokenClaims(l *lab) {
	token := l.firstKnock().query.Get("token")
	if token == "" {
		l.Fatalf("the parameter token", "none")
	}
	for _, f := range tokenFaults(token, l.server.Secret()) {
		l.Failf(f.Expected, "%s", f.Came)
	}
}

// tokenFaults returns what is wrong with a worker's token, whatever its times.
func tokenFaults(token, secret string) (faults []suite.Failure) {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithoutClaimsValidation())
	claims := jwt.MapClaims{}
	if _, err := parser.ParseWithClaims(token, claims, func(*jwt.Token) (any, error) { return []byte(secret), nil }); err != nil {
		return []suite.Failure{{Expected: "a JWT that is signed with HS256 over the bytes of the secret", Came: err.Error()}}
	}
	if iss, _ := claims.GetIssuer(); iss != "urn:openfn:worker" {
		faults = append(faults, suite.Failure{Expected: "the claim iss to be urn:openfn:worker", Came: strconv.Quote(iss)})
	}
	for _, name := range []string{"iat", "worker_id"} {
		if claims[name] == nil {
			faults = append(faults, suite.Failure{Expected: "the claim " + name, Came: "the claims " + list(slices.Sorted(keys(claims)))})
		}
	}
	return faults
}

func checkTokenTimes(l *lab) {
	claims, token := jwt.MapClaims{}, l.firstKnock().query.Get("token")
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		l.Fatalf("a JWT", "%v", err)
	}
	const leeway, day = 5 * time.Second, 24 * time.Hour
	now := time.Now()
	if nbf, err := claims.GetNotBefore(); err != nil || nbf != nil && nbf.After(now.Add(leeway)) {
		l.Failf("no nbf, or one that has come", "%v", claims["nbf"])
	}
	if iat, err := claims.GetIssuedAt(); err != nil || iat == nil || iat.After(now.Add(leeway)) {
		l.Failf("an iat that has come", "%v", claims["iat"])
	}
	exp, err := claims.GetExpirationTime()
	if err != nil || exp != nil && (exp.Before(now) || exp.Before(now.Add(day)) && l.showsAgain(token)) {
		l.Failf("no exp, one that is a day away at least, or a new token for each connection", "%v", claims["exp"])
	}
}

// showsAgain reports whether the worker shows a token at its next connection, too.
func (l *lab) showsAgain(token string) bool {
	l.awaitQueue()
	l.watch(1100 * time.Millisecond) // the times of a token are in seconds: one that is made within the same may be the same
	knocks, _ := l.door.requests()
	before := len(knocks)
	_ = l.server.Kick(fault.Abnormal) // the code is a good one
	l.await("the worker to ask for a socket again", func() bool {
		knocks, _ = l.door.requests()
		return len(knocks) > before
	})
	return knocks[before].query.Get("token") == token
}

// checkGrowth looks at the pauses between attempts until a late one is longer than the shorter of the first two. They may be
// random, so it goes on for ten attempts before it says that none is.
func checkGrowth(l *lab) {
	const attempts, early = 10, 2
	var pauses []time.Duration
	l.await("ten attempts to connect, or fewer with pauses that grow", func() bool {
		knocks, _ := l.door.requests()
		pauses = nil
		for i := 1; i < len(knocks); i++ {
			pauses = append(pauses, knocks[i].at.Sub(knocks[i-1].at))
		}
		return len(knocks) >= attempts || grow(pauses, early)
	})
	if !grow(pauses, early) {
		l.Failf("a late pause that is longer than an early one by a half at least", "the pauses %v", rounded(pauses))
	}
}

// grow reports whether a pause behind the early ones is longer than one of these by a half.
func grow(pauses []time.Duration, early int) bool {
	if len(pauses) <= early {
		return false
	}
	first := slices.Min(pauses[:early])
	return slices.Max(pauses[early:]) >= first+first/2
}

// checkSpread cuts two workers off together, some times, and compares when each is back.
func checkSpread(l *lab) {
	const times, apart = 5, 30 * time.Millisecond
	other := l.another()
	l.await("a second worker to join worker:queue", func() bool { return l.inQueue() >= 2 })
	var differences []time.Duration
	for range times {
		knocks, _ := l.door.requests()
		before, joined := len(knocks), l.inQueue()
		_ = l.server.Kick(fault.Abnormal) // the code is a good one
		l.await("both workers to come back", func() bool { return l.inQueue() >= joined+2 })
		knocks, _ = l.door.requests()
		back := knocks[before:]
		differences = append(differences, back[len(back)-1].at.Sub(back[0].at))
	}
	other.kill()
	if slices.Max(differences) < apart {
		l.Failf("the workers to come back at different moments, at least once in five times", "%v apart", rounded(differences))
	}
}

// rounded are durations for people.
func rounded(all []time.Duration) (out []time.Duration) {
	for _, d := range all {
		out = append(out, d.Round(time.Millisecond))
	}
	return out
}

func checkOwnSecrets(l *lab) {
	l.reason(l.execute(one(codeCount)), "success")
	if l.worker.signal() == nil { // what it writes in the end counts as well; that it ends is W5.1's matter
		_ = l.until(stopTime, l.exited)
	}
	written := l.worker.log.String()
	if strings.Contains(written, l.server.Secret()) {
		l.Failf("no secret in the worker's output", "WORKER_SECRET is in it")
	}
	knocks, _ := l.door.requests()
	if strings.Contains(written, knocks[0].query.Get("token")) {
		l.Failf("no token in the worker's output", "the token of the socket is in it")
	}
	for token := range l.runTokens() {
		if strings.Contains(written, token) {
			l.Failf("no token in the worker's output", "the token of a run is in it")
		}
	}
}
