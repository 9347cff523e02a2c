package server_test

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"

	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// letsIn is a server that lets in whoever it likes, and nobody else whom it should not.
func letsIn(likes func(token string, header map[string]any, claims jwt.MapClaims) bool) func(*world) hooks {
	return func(*world) hooks {
		return hooks{connect: func(params url.Values, next func() (string, error)) (string, error) {
			name, err := next()
			if err == nil {
				return name, nil
			}
			claims := jwt.MapClaims{}
			token, _, _ := jwt.NewParser().ParseUnverified(params.Get("token"), claims)
			if token == nil {
				token = &jwt.Token{}
			}
			if likes(params.Get("token"), token.Header, claims) {
				return "somebody", nil
			}
			return "", err
		}}
	}
}

var brokenConnect = []breakage{
	{name: "lets nobody in", red: []string{
		"S1.1", "S1.2", "S2", "S3.1", "S3.2", "S3.3", "S3.4", "S3.5", "S3.6", "S3.7", "S3.8", "S3.9", "S3.10", "S3.11", "S3.12", "S3.13", "S3.14", "S3.15", "S3.16", "S3.17",
		"S4", "S5", "S6", "S7", "S8", "S9",
	}, breaks: func(*world) hooks {
		return hooks{connect: func(url.Values, func() (string, error)) (string, error) { return "", errors.New("closed") }}
	}},
	{name: "takes no token of yesterday", red: []string{"S1.2"}, breaks: func(*world) hooks {
		return hooks{connect: func(params url.Values, next func() (string, error)) (string, error) {
			claims := jwt.MapClaims{}
			_, _, _ = jwt.NewParser().ParseUnverified(params.Get("token"), claims)
			if iat, _ := claims.GetIssuedAt(); iat != nil && time.Since(iat.Time) > 24*time.Hour {
				return "", errors.New("too old")
			}
			return next()
		}}
	}},
	{name: "verifies no signature", red: []string{"S1.3"}, breaks: letsIn(func(_ string, header map[string]any, c jwt.MapClaims) bool {
		return header["alg"] == "HS256" && c["iss"] == "urn:openfn:worker" && c["worker_id"] != nil && c["iat"] != nil && c["nbf"] == nil
	})},
	{name: "takes no token for a good one", red: []string{"S1.4"}, breaks: letsIn(func(token string, _ map[string]any, _ jwt.MapClaims) bool { return token == "" })},
	{name: "takes what is no token", red: []string{"S1.4"}, breaks: letsIn(func(token string, header map[string]any, _ jwt.MapClaims) bool { return token != "" && header == nil })},
	{name: "lets the token choose its algorithm", red: []string{"S1.5"}, breaks: letsIn(func(_ string, header map[string]any, _ jwt.MapClaims) bool { return header["alg"] == "none" })},
	{name: "takes tokens of any issuer", red: []string{"S1.6"}, breaks: letsIn(func(_ string, h map[string]any, c jwt.MapClaims) bool {
		return h["alg"] == "HS256" && c["iss"] != "urn:openfn:worker"
	})},
	{name: "takes tokens without worker_id", red: []string{"S1.7"}, breaks: letsIn(func(_ string, h map[string]any, c jwt.MapClaims) bool {
		return h["alg"] == "HS256" && c["worker_id"] == nil
	})},
	{name: "takes tokens without iat", red: []string{"S1.7"}, breaks: letsIn(func(_ string, h map[string]any, c jwt.MapClaims) bool {
		return h["alg"] == "HS256" && c["iat"] == nil
	})},
	{name: "does not look at nbf", red: []string{"S1.8"}, breaks: letsIn(func(_ string, _ map[string]any, c jwt.MapClaims) bool { return c["nbf"] != nil })},
}

// fromServer changes what the server sends; one that returns false drops it.
func fromServer(change func(l *link, m message) (message, bool)) func(*world) hooks {
	return func(*world) hooks {
		return hooks{fromServer: func(l *link, m message) []message {
			if m, ok := change(l, m); ok {
				return []message{m}
			}
			return nil
		}}
	}
}

// fromClient changes what clients send, likewise.
func fromClient(change func(l *link, m message) (message, bool)) func(*world) hooks {
	return func(*world) hooks {
		return hooks{fromClient: func(l *link, m message) []message {
			if m, ok := change(l, m); ok {
				return []message{m}
			}
			return nil
		}}
	}
}

// dummy is a topic that should not be there.
type dummy struct{}

func (dummy) Handle(phoenix.Push) phoenix.Reply { return phoenix.OK(nil) }
func (dummy) Left()                             {}

const noSuchEvent = "kit:no_such_event"

// unknownEvent is a server that does something else over an event that there is not.
func unknownEvent(do func(j *joined, p phoenix.Push) phoenix.Reply) func(*world) hooks {
	return func(*world) hooks {
		return hooks{push: func(j *joined, p phoenix.Push, next func(phoenix.Push) phoenix.Reply) phoenix.Reply {
			if p.Event == noSuchEvent {
				return do(j, p)
			}
			return next(p)
		}}
	}
}

var brokenFrames = []breakage{
	{name: "answers the heartbeat with something else", red: []string{"S2.1"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		if m.topic() == "phoenix" {
			m = m.with(4, map[string]any{"status": "ok", "response": "pong"})
		}
		return m, true
	})},
	{name: "answers one heartbeat only", red: []string{"S2.1"}, breaks: fromServer(func(l *link, m message) (message, bool) {
		if m.topic() != "phoenix" {
			return m, true
		}
		l.refs["beats"] += "."
		return m, l.refs["beats"] == "."
	})},
	{name: "leaves the join_ref out of replies", red: []string{"S2.2"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		if m.event() == "phx_reply" {
			m = m.with(0, nil)
		}
		return m, true
	})},
	{name: "takes refs for numbers", red: []string{"S2.2"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		if strings.Contains(string(m.data), `"z9"`) {
			m = m.with(1, 9)
		}
		return m, true
	})},
	{name: "has every topic", red: []string{"S2.3"}, breaks: func(*world) hooks {
		return hooks{join: func(t *phoenix.Topic, payload []byte, next func([]byte) (phoenix.Channel, phoenix.Reply)) (phoenix.Channel, phoenix.Reply) {
			if strings.HasPrefix(t.Name(), "kitchen:") {
				return dummy{}, phoenix.OK([]byte(`{}`))
			}
			return next(payload)
		}}
	}},
	{name: "says nothing to what is for no topic", red: []string{"S2.3", "S2.4"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		return m, !strings.Contains(string(m.data), "unmatched topic")
	})},
	{name: "closes the connection over an unknown event", red: []string{"S2.5", "S2.6", "S2.7"}, breaks: fromClient(func(l *link, m message) (message, bool) {
		if m.event() == noSuchEvent {
			l.cut()
		}
		return m, true
	})},
	{name: "says nothing to an unknown event", red: []string{"S2.6"}, breaks: unknownEvent(func(_ *joined, p phoenix.Push) phoenix.Reply {
		_, reply := p.Defer()
		return reply
	})},
	{name: "keeps a crashed topic for ever", red: []string{"S2.7"}, breaks: func(w *world) hooks {
		crashed := make(map[string]bool)
		return hooks{
			push: func(j *joined, p phoenix.Push, next func(phoenix.Push) phoenix.Reply) phoenix.Reply {
				if p.Event == noSuchEvent {
					crashed[j.topic.Client()+j.topic.Name()] = true
				}
				return next(p)
			},
			join: func(t *phoenix.Topic, payload []byte, next func([]byte) (phoenix.Channel, phoenix.Reply)) (phoenix.Channel, phoenix.Reply) {
				if crashed[t.Client()+t.Name()] {
					return nil, phoenix.Refuse([]byte(`{"reason":"crashed"}`))
				}
				return next(payload)
			},
		}
	}},
	{name: "falls over what is no frame", red: []string{"S2.8"}, breaks: func(w *world) hooks {
		return hooks{fromClient: func(_ *link, m message) []message {
			if m.kind == websocket.TextMessage && m.topic() == "" {
				for l := range w.links {
					l.cut()
				}
			}
			return []message{m}
		}}
	}},
	{name: "takes frames of 5 MB only", red: []string{"S2.9"}, settings: func(s *settings) { s.phoenix.MaxFrame = 5_000_000 }},
	{name: "says nothing to a frame that is too large", red: []string{"S2.10"}, breaks: fromClient(func(_ *link, m message) (message, bool) {
		return m, len(m.data) < 11_000_000
	})},
	{name: "falls over a frame that is too large", red: []string{"S2.10"}, breaks: func(w *world) hooks {
		return hooks{fromClient: func(_ *link, m message) []message {
			if len(m.data) > 11_000_000 {
				for l := range w.links {
					l.cut()
				}
			}
			return []message{m}
		}}
	}},
	{name: "says nothing to a leave", red: []string{"S2.11", "S2.12", "S8.8"}, breaks: fromClient(func(_ *link, m message) (message, bool) {
		return m, m.event() != "phx_leave"
	})},
	{name: "sends no phx_close behind a leave", red: []string{"S2.12"}, breaks: fromServer(func(_ *link, m message) (message, bool) {
		return m, m.event() != "phx_close" || m.topic() != "worker:queue"
	})},
	{name: "says nothing to a join of what is joined", red: []string{"S2.13", "S2.14"}, breaks: func(*world) hooks {
		return hooks{
			fromClient: func(l *link, m message) []message {
				if m.event() == "phx_join" {
					if l.refs[m.topic()] != "" {
						return nil
					}
					l.refs[m.topic()] = m.joinRef()
				}
				return []message{m}
			},
			fromServer: func(l *link, m message) []message {
				if m.event() == "phx_error" || m.event() == "phx_reply" && strings.Contains(string(m.data), `"error"`) {
					delete(l.refs, m.topic())
				}
				return []message{m}
			},
		}
	}},
	{name: "ends the new join with the old one", red: []string{"S2.13", "S2.14"}, breaks: func(*world) hooks {
		return hooks{
			fromClient: func(l *link, m message) []message {
				if m.event() == "phx_join" {
					l.refs[m.topic()] = m.joinRef()
				}
				return []message{m}
			},
			fromServer: func(l *link, m message) []message {
				if m.event() == "phx_close" && l.refs[m.topic()] != m.joinRef() {
					m = m.with(0, l.refs[m.topic()])
				}
				return []message{m}
			},
		}
	}},
	{name: "takes a leave of an earlier join for one of the present", red: []string{"S2.14"}, breaks: fromClient(func(l *link, m message) (message, bool) {
		switch m.event() {
		case "phx_join":
			l.refs[m.topic()] = m.joinRef()
		case "phx_leave":
			m = m.with(0, l.refs[m.topic()])
		}
		return m, true
	})},
	{name: "has one socket for a worker", red: []string{"S2.15"}, breaks: func(w *world) hooks {
		return hooks{connect: func(_ url.Values, next func() (string, error)) (string, error) {
			name, err := next()
			if err == nil {
				w.endpoint.Kick(name, websocket.CloseNormalClosure)
			}
			return name, err
		}}
	}},
}
