package compile

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against bodies that take hundreds of times their size in the worker's own process.
func TestCodeThatIsTooLargeIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	c := NewCompiler(0)
	job := Job{Name: "Load", Body: strings.Repeat("x=1;", 1<<18)}
	_, err := c.Start(t.Context(), []Job{{Body: "fn()"}, job}, nil)
	require.EqualError(t, err, "Load: The code is too large: 1048576 bytes in 1048576 words and signs, which take up to 358 MB of memory, over this worker's limit of 64 MB")
	batch, err := c.Start(t.Context(), nil, nil)
	require.NoError(t, err)
	_, err = batch.Compile(t.Context(), job)
	require.ErrorContains(t, err, "Load: The code is too large")
	_, err = batch.Condition(t.Context(), strings.Repeat("1,", 1<<19)+"1")
	require.ErrorContains(t, err, "The code is too large: 1048577 bytes")

	job.Body = job.Body[:1<<16]
	_, err = c.Start(t.Context(), slices.Repeat([]Job{job}, 15), slices.Repeat([]string{job.Body}, 2))
	require.EqualError(t, err, "The code of the plan is too large: 1114112 bytes in 1114112 words and signs, which take up to 112 MB of memory, over this worker's limit of 64 MB")

	// Bytes alone say little.
	for _, body := range []string{"fn('" + strings.Repeat("x=1;", 1<<18) + "')", "fn()/*" + strings.Repeat("x=1;", 1<<18) + "*/", "/[\"'/]/;fn(`" + strings.Repeat("x=1;", 1<<18) + "`)"} {
		_, err = batch.Compile(t.Context(), Job{Body: body})
		require.NoError(t, err)
	}
}

// Guards against counts that wrap around, and so come to less than nothing.
func TestWhatCannotBeCountedIsRefused(t *testing.T) {
	c := NewCompiler(0)
	for _, levels := range []int{40, 50, 56, 64, 80} {
		nested := Job{Name: "Load", Body: strings.Repeat("(a=", levels) + "0" + strings.Repeat(")=>0", levels)}
		jobs := append(slices.Repeat([]Job{nested}, 7), slices.Repeat([]Job{{Body: strings.Repeat("x=1;", 40_000)}}, 20)...)
		_, err := c.Start(t.Context(), jobs, nil)
		require.ErrorContains(t, err, "Load: The code is too large", levels)
		_, err = c.Start(t.Context(), nil, slices.Repeat([]string{nested.Body}, 1000))
		require.ErrorContains(t, err, "The code of the plan is too large", levels)
	}
}

// hostile are bodies that take much for their size.
func hostile() map[string]string {
	const n = 1 << 13
	repeat := func(s string) string { return strings.Repeat(s, n/len(s)) }
	names := func(before, after string) string {
		var b strings.Builder
		for i := 0; b.Len() < n; i++ {
			b.WriteString(before + strconv.Itoa(i) + after)
		}
		return b.String()
	}
	return map[string]string{
		"assignments": repeat("x=1;"), "calls": repeat("f();"), "operations": repeat("fn($.a);\n"), "lazy": repeat("f($.a,$.b);"), "spread over arguments": "f(" + repeat("$.a,") + ")",
		"chains": repeat("f(a).then(b).catch(c);"), "catches": repeat("f().catch();"), "links": repeat("((f()).catch().then());"),
		"empty": repeat(";"), "arrows": repeat("x=>{};"), "called arrows": repeat("(a=>a)();"), "array": "x=[" + repeat("1,") + "]", "objects": "x=[" + repeat("{a},") + "]",
		"parameters": "x=[" + repeat("(a,b)=>{},") + "]", "parameters in parameters": "x=[" + repeat("(a=(b=(c=(d)=>1)=>1)=>1)=>1,") + "]", "fields": "class A{" + repeat("a;") + "}",
		"patterns": repeat("/a/;"), "numbers": repeat("1n;"), "string": "'" + repeat(`\n`) + "'", "unicode": "'" + repeat("ä") + "'", "blank": repeat(" "), "no text": repeat("\x00"), "backslashes": repeat(`\`),
		"names": names("a", ";"), "declarations": names("let a", ";"), "functions": names("function a", "(){}"), "exports": "let a;export {" + repeat("a,") + "}", "imports": repeat("import 'a';"),
		"nested": repeat("[")[:2000] + repeat("]")[:2000], "open": repeat("(")[:2000], "awaits": repeat("await f();"), "templates": repeat("`${a}`;"), "behind a pattern": repeat("x={}/'/;x=1;x=1;x=1;'/;"),
	}
}

// The count of tokens is worth nothing where code can hide from it.
func TestCompilingTakesNoMoreThanForetold(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	for name, body := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		module, err := Compile(Job{Body: body, Adaptors: []Adaptor{{Name: "a", Exports: []string{"fn"}}, {Name: "b"}}})
		runtime.ReadMemStats(&after)
		took, foretold := after.TotalAlloc-before.TotalAlloc, sizeOf(body).work()+1<<17
		require.LessOrEqual(t, took, uint64(foretold), "%s: %v", name, err)
		runtime.KeepAlive(module)
	}
}

func TestLargeCodeIsCompiledInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		large := Job{Body: strings.Repeat("x=1;", 100_000/4)} // takes 34 MB
		c := NewCompiler(0)
		first, err := c.Start(t.Context(), nil, nil)
		require.NoError(t, err)
		defer first.Close()
		second, err := c.Start(t.Context(), nil, nil)
		require.NoError(t, err)
		defer second.Close()

		under, goOn := make(chan struct{}), make(chan struct{})
		go func() {
			_ = first.within(t.Context(), large, func(size) error { close(under); <-goOn; return nil })
		}()
		<-under
		ended := errors.New("the time of the run is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ended)
		defer cancel()
		_, err = second.Compile(ctx, large)
		require.ErrorIs(t, err, ended)
		_, err = second.Compile(t.Context(), Job{Body: "fn()"}) // waits for nobody
		require.NoError(t, err)
		close(goOn)
		_, err = second.Compile(t.Context(), large)
		require.NoError(t, err)
	})
}

// What a compiled job keeps is kept for as long as its run lasts.
func TestRunsWithVeryMuchCodeWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCompiler(0)
		much := []Job{{Body: strings.Repeat("'"+strings.Repeat("a", 1<<20)+"';", 9)}} // keeps 38 MB
		first, err := c.Start(t.Context(), much, nil)
		require.NoError(t, err)
		ended := errors.New("the time of the run is over")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, ended)
		defer cancel()
		_, err = c.Start(ctx, much, nil)
		require.ErrorIs(t, err, ended)
		_, err = c.Start(t.Context(), []Job{{Body: "fn()"}}, nil) // waits for nobody
		require.NoError(t, err)
		first.Close()
		second, err := c.Start(t.Context(), much, nil)
		require.NoError(t, err)
		second.Close()
	})
}

// What takes long ends with the run's time: scopes in scopes, each looked through for each name.
func TestCompilingEndsWithItsContext(t *testing.T) {
	var body strings.Builder
	for range 5000 {
		body.WriteString("{let a;")
	}
	body.WriteString(strings.Repeat("x,", 160_000) + "y" + strings.Repeat("}", 5000))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err := compile(ctx, Job{Body: body.String(), Adaptors: []Adaptor{{Name: "a"}}}, sizeOf(""))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 20*time.Second)
}

// Guards against reading the body from its start for each operation and each link of a chain: this would take minutes.
func TestPositionsAreFoundInOnePass(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, or fills the memory; nothing of it is concurrent")
	}
	text := strings.Repeat("ä\r\nfn(💥);", 1<<16)
	c := cursor{text: text}
	for i := range 20_000 {
		c.at(len(text) - i)
		c.at(len(text)/2 + i)
	}
	for _, offset := range []int{-1, 0, 1, stretch - 1, stretch, stretch + 1, stretch + 2, 5*stretch + 3, len(text) / 3, len(text) + 1} {
		require.Equal(t, positionAt(text, offset), c.at(offset), offset)
	}
}
