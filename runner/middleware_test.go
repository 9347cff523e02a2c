package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMiddlewareIsAroundEveryRun(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var calls []string
		named := func(name string) Middleware {
			return func(next ExecuteFunc) ExecuteFunc {
				return func(ctx context.Context, run *Run) (Result, error) {
					calls = append(calls, name+" "+run.ID)
					result, err := next(ctx, run)
					calls = append(calls, "/"+name)
					return result, errors.Join(err, errors.New(name))
				}
			}
		}
		engine := Func(func(context.Context, *Run) (any, error) {
			calls = append(calls, "engine")
			return nil, nil
		})
		outcome := w.run(Config{Engine: engine, Middleware: []Middleware{named("a"), named("b")}}, planOf(""))
		require.Equal(t, []string{"a r1", "b r1", "engine", "/b", "/a"}, calls)
		require.Equal(t, Fail, outcome.Reason)
		require.Equal(t, "b\na", outcome.Message)
	})
}
