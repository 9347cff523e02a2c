package runner

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked is an engine for no plan that is well, or ill.
type checked struct {
	preparing

	ill error
}

func (checked) CanRun(context.Context, *Run) error { return errors.New("not this one") }

func (c checked) Check(context.Context) error { return c.ill }

// Guards against a worker that takes runs for the one engine while the other is ill.
func TestAChoiceIsAsWellAsBothEngines(t *testing.T) {
	one, other := errors.New("one"), errors.New("other")
	tests := []struct {
		name   string
		first  PartialEngine
		second Engine
		want   error
	}{
		{name: "both are well", first: checked{}, second: checked{}},
		{name: "the first is ill", first: checked{ill: one}, second: checked{ill: other}, want: one},
		{name: "the second is ill", first: checked{}, second: checked{ill: other}, want: other},
		{name: "the second does not tell", first: checked{}, second: preparing{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			choice, ok := Either(tt.first, tt.second).(Checker)
			require.True(t, ok)
			require.Equal(t, tt.want, choice.Check(t.Context()))
		})
	}
}

// lacking is an engine that cannot have what the run needs, as nobody can.
type lacking struct{ checked }

var noSuchVersion = &Failure{Reason: Exception, Type: "AutoinstallError", Message: "there is no such version"}

func (lacking) CanRun(context.Context, *Run) error               { return noSuchVersion }
func (lacking) Prepare(context.Context, *Run) (Execution, error) { return nil, noSuchVersion }

// Guards against an error that says everything twice.
func TestAChoiceSaysOnceWhatBothEnginesMiss(t *testing.T) {
	_, err := Either(lacking{}, lacking{}).Prepare(t.Context(), &Run{Plan: &Plan{}})
	require.EqualError(t, err, "AutoinstallError (exception): there is no such version")
}

// without is an engine that there is not on this machine.
type without struct{ preparing }

func (without) Prepare(context.Context, *Run) (Execution, error) {
	return nil, &Failure{Reason: Exception, Type: "EngineError", Message: "there is no second engine"}
}

// Guards against a run that ends for want of an engine without a word on why it needs that one.
func TestAChoiceSaysWhyARunNeedsTheOtherEngine(t *testing.T) {
	preparer := Either(checked{}, without{})
	_, err := preparer.Prepare(t.Context(), &Run{Plan: &Plan{}})
	require.EqualError(t, err, "EngineError (exception): there is no second engine; this run cannot do without: not this one")
}

// Guards against an adaptor that there is not, for which people are sent to install Node.
func TestAChoiceDoesNotSayThatTheOtherEngineWouldHelpWhereItWouldNot(t *testing.T) {
	_, err := Either(lacking{}, without{}).Prepare(t.Context(), &Run{Plan: &Plan{}})
	require.EqualError(t, err, "AutoinstallError (exception): there is no such version")
}
