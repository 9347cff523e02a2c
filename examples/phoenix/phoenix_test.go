// Package phoenix_test holds the Elixir of this folder to the Go types of the worker
// and the mock server.
package phoenix_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/extended"
	"github.com/phxworker/phxworker/runner/terms"
)

const root = "../.."

// names is a set of them, sorted, so that a difference can be read.
func names(of ...[]string) []string {
	set := make(map[string]bool)
	for _, list := range of {
		for _, name := range list {
			set[name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// elixir returns a file of lib, without its documentation.
func elixir(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("lib", file))
	require.NoError(t, err)
	return regexp.MustCompile(`(?s)""".*?"""`).ReplaceAllString(string(text), "")
}

// found returns what the first group of a pattern matches in a text.
func found(pattern, text string) (all []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// clauses returns the functions of a module, one string a clause, with this name.
func clauses(module, name string) (all []string) {
	for _, clause := range regexp.MustCompile(`(?m)^  def(?:p|) `).Split(module, -1) {
		if strings.HasPrefix(clause, name+"(") {
			all = append(all, clause)
		}
	}
	return all
}

// matched returns the keys of payloads that a text matches on.
func matched(text string) []string { return names(found(`"([a-z_]+)" =>`, text)) }

// Every event that worker and mock server know is handled or pushed by the channels, and no
// other.
func TestTheEventsAreThoseOfWorkerAndMockServer(t *testing.T) {
	var events []string
	for _, file := range []string{"worker_channel.ex", "run_channel.ex"} {
		module := elixir(t, file)
		events = append(events, found(`def handle_in\("([^"]+)"`, module)...)
		events = append(events, found(`push\(socket, "([^"]+)"`, module)...)
		for _, list := range found(`@events ~w\(([^)]*)\)`, module) {
			events = append(events, strings.Fields(list)...)
		}
	}
	require.Equal(t, eventsOf(t, ".", "runner", "runner/delivery", "runner/terms"), names(events), "the worker's, and the example's")
	require.Equal(t, eventsOf(t, "mockserver/lightning", "mockserver/extended"), names(events), "the mock server's, and the example's")
}

func TestTheExtensionsAreThoseOfWorkerAndMockServer(t *testing.T) {
	module := elixir(t, "extensions.ex")
	lists := make(map[string][]string)
	for _, topic := range []string{"queue", "run"} {
		list := found(`@`+topic+` ~w\(([^)]*)\)`, module)
		require.Len(t, list, 1)
		lists[topic] = strings.Fields(list[0])
	}
	all := names(lists["queue"], lists["run"])
	require.Equal(t, names(phxworker.KnownExtensions()), all)
	require.Equal(t, names(extended.Names()), all)
	require.Equal(t, names(terms.Extensions(), []string{"lease"}), names(lists["run"]))

	require.Equal(t, []string{"extensions"}, matched(module))
	require.Contains(t, tagsOf(t, ".", "queue.MarshalJSON"), "extensions")
	require.Contains(t, tagsOf(t, "runner/terms", "joinPayload.MarshalJSON"), "extensions")
}

// What the channels match on is what the worker sends. Of the events of Lightning's own
// they look at what they need, of those of the extensions at everything.
func TestTheFieldsThatAreReadAreThoseOfTheWorker(t *testing.T) {
	queue, run := elixir(t, "worker_channel.ex"), elixir(t, "run_channel.ex")
	in := func(module, event string) []string {
		for _, clause := range clauses(module, "handle_in") {
			if strings.HasPrefix(clause, `handle_in("`+event+`"`) {
				return matched(clause)
			}
		}
		require.Fail(t, "no clause for "+event)
		return nil
	}
	helpers := strings.Join(append(clauses(queue, "queues"), clauses(queue, "wait")...), "")
	require.Equal(t, keysOf(t, claim.Request{WaitMS: 1}), names(in(queue, "claim"), matched(helpers)))
	require.Equal(t, keysOf(t, terms.Release{}), in(queue, "run:release"))
	require.Equal(t, tagsOf(t, ".", "status"), in(queue, "worker:status"))

	join := strings.Join(clauses(run, "join"), "")
	require.Equal(t, tagsOf(t, "runner/terms", "joinPayload.MarshalJSON"), names(matched(join), matched(elixir(t, "extensions.ex"))))
	require.Empty(t, in(run, "run:renew"))
	require.Empty(t, in(run, "fetch:plan"))

	rest := names(in(run, "fetch:credential"), matched(strings.Join(clauses(run, "receipt"), "")), matched(elixir(t, "run.ex")))
	worker := source(t, "runner") + source(t, "runner/delivery")
	for _, key := range rest {
		require.True(t, strings.Contains(worker, `json:"`+key) || strings.Contains(worker, `{"`+key+`":`), "the worker sends no %s", key)
	}
}

// What the channels answer and push is what the worker reads.
func TestTheFieldsThatAreAnsweredAreThoseOfTheWorker(t *testing.T) {
	queue, run, runs := elixir(t, "worker_channel.ex"), elixir(t, "run_channel.ex"), elixir(t, "run_queue.ex")

	told := strings.Join(clauses(runs, "told"), "")
	given := names(found(`[{ ]([a-z_]+): run\.`, told), found(`\{:([a-z_]+), `, told))
	require.Equal(t, names(keysOf(t, claim.Run{}), tagsOf(t, ".", "queue.readRun")), given)
	require.Equal(t, tagsOf(t, ".", "queue.read"), found(`reply\(ref, \{:ok, %\{([a-z_]+):`, queue))

	answers := func(module string) []string { return names(found(`\{:reply, \{:ok, %\{([a-z_]+):`, module)) }
	require.Empty(t, answers(queue), "releases and statuses are answered {}")
	require.Equal(t, tagsOf(t, "runner/terms", "Terms.renew"), answers(run))

	reasons := names(found(`%\{reason: "([a-z_]+)"\}`, queue+run), []string{"lease_lost", "not_found"})
	require.Equal(t, []string{"lease_lost", "not_claimed", "not_found", "unauthorized"}, reasons)
	mock := source(t, "mockserver/lightning") + source(t, "mockserver/extended") + source(t, "mockserver/changeset")
	for _, reason := range reasons {
		requireText(t, mock, `{"reason":"`+reason+`"}`)
		requireText(t, runs, ":"+reason)
	}
	require.Equal(t, []string{"message"}, found(`"run:cancel", %\{([a-z_]+):`, run))
	requireText(t, mock, `{"message":`)
	requireText(t, source(t, "runner/terms"), `struct{ Message string }`)
	phrases := found(`\["([^"]*\balready\b[^"]*|[^"]* been taken)"\]`, elixir(t, "run.ex"))
	require.Len(t, phrases, 2)
	for _, phrase := range phrases {
		requireText(t, mock, `"`+phrase+`"`)
	}
}

// requireText is require.Contains, without the whole text in the failure.
func requireText(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) {
		require.Fail(t, "nowhere: "+part)
	}
}

// source returns the Go of a folder.
func source(t *testing.T, folder string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// The reasons of a release are those that the worker gives.
func TestTheReasonsOfAReleaseAreThoseOfTheWorker(t *testing.T) {
	reasons := []string{terms.ReleaseRequeue, terms.ReleasePostpone, terms.ReleaseDrain, terms.ReleasePrefetch}
	list := found(`@reasons ~w\(([^)]*)\)`, elixir(t, "run_queue.ex"))
	require.Len(t, list, 1)
	require.Equal(t, names(reasons), names(strings.Fields(list[0])))
}

// The terms, by default, are those of the mock server.
func TestTheTermsAreThoseOfTheMockServer(t *testing.T) {
	defaults := make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^    ([a-z_]+): ([\d_]+),?$`).FindAllStringSubmatch(elixir(t, "run_queue.ex"), -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(m[2], "_", ""))
		require.NoError(t, err)
		defaults[m[1]] = n
	}
	terms := make(map[string]map[string]int)
	offer := make(map[string]int)
	for _, name := range phxworker.KnownExtensions() {
		terms[name], offer[name] = map[string]int{"v": 1}, 1
	}
	for _, clause := range clauses(elixir(t, "extensions.ex"), "terms") {
		for _, name := range found(`^terms\("([a-z_]+)"`, clause) {
			for _, m := range regexp.MustCompile(`([a-z_]+): t\.([a-z_]+)`).FindAllStringSubmatch(clause, -1) {
				require.Contains(t, defaults, m[2])
				terms[name][m[1]] = defaults[m[2]]
			}
		}
	}

	server := mockserver.NewTest(t, mockserver.Config{Mode: mockserver.Extended})
	worker := server.WorkerToken("w")
	socket, err := channel.Open(channel.Config{URL: server.URL(), Params: func(context.Context) (url.Values, error) {
		return url.Values{"token": {worker}}, nil
	}})
	require.NoError(t, err)
	defer socket.Close()
	topic, err := socket.Join(t.Context(), "worker:queue", map[string]any{"extensions": offer})
	require.NoError(t, err)
	join, _ := topic.Current()
	var reply struct{ Extensions map[string]map[string]int }
	require.NoError(t, json.Unmarshal(join.Response, &reply))
	delete(terms, "cancel") // they are the run's topic's
	delete(terms, "notify")
	require.Equal(t, terms, reply.Extensions)
}
