defmodule WorkerServer.Run do
  @moduledoc """
  One run, as the queue keeps it. Nothing here has an effect.

  A run is `:available`; `:claimed` by a worker, which was handed a token; `:joined`, when
  that worker is on the run's topic; `:delayed`, when it was returned for later; and at
  last `{:over, reason}`.
  """

  # A process that crashes has its state in the log: without what nobody else may have.
  @derive {Inspect, except: [:token, :old_tokens, :credentials]}
  @enforce_keys [:id, :plan, :seq]
  defstruct [
    :id,
    :plan,
    # Runs are given away in the order in which they came.
    :seq,
    # Who has it: the worker's id, the token it was handed, the channel it has joined
    # with, and until when (nil: for ever).
    :worker,
    :token,
    :channel,
    :until,
    # What to tell the worker of a cancellation, again at each join.
    :cancel,
    queue: "default",
    # The dataclip, as JSON text.
    input: "null",
    credentials: %{},
    state: :available,
    # Which the next claim, or the present one, is.
    attempt: 1,
    # Tokens of those who had it.
    old_tokens: [],
    # Steps that were started and completed, and all events, the latest first.
    steps: MapSet.new(),
    events: []
  ]

  defguard is_owned(state) when state in [:claimed, :joined]
  defguard is_waiting(state) when state in [:available, :delayed]

  def new(fields) do
    struct!(__MODULE__, Map.put(fields, :seq, System.unique_integer([:monotonic])))
  end

  def claim(run, worker) do
    token = Base.url_encode64(:crypto.strong_rand_bytes(32), padding: false)
    %{run | state: :claimed, worker: worker, token: token}
  end

  def join(%{state: :claimed} = run, channel), do: %{run | state: :joined, channel: channel}
  def join(run, channel), do: %{run | channel: channel}

  @doc "Takes a run from its worker. It is another attempt if the run may be to blame."
  def take_back(run, delayed, blamed) do
    %{
      run
      | state: if(delayed, do: :delayed, else: :available),
        attempt: if(blamed, do: run.attempt + 1, else: run.attempt),
        old_tokens: [run.token | run.old_tokens],
        worker: nil,
        token: nil,
        channel: nil,
        until: nil
    }
  end

  def finish(run, reason), do: %{run | state: {:over, reason}, until: nil}

  @doc "Returns `{:ok, value}` of `:plan`, `:input` or `{:credential, id}`, or `{:error, errors}`."
  def part(run, {:credential, id}) do
    case run.credentials do
      %{^id => body} -> {:ok, body}
      _ -> {:error, %{errors: %{id: ["Credential not found!"]}}}
    end
  end

  def part(run, what), do: Map.fetch(run, what)

  @doc """
  Records an event: `{:ok, run}`, or `{:error, errors}`.

  A worker sends an event again when it could not hear what became of the first copy. A
  refusal that says "already" tells it.
  """
  def record(%{state: {:over, _}}, _event, _payload) do
    {:error, %{state: ["already in completed state"]}}
  end

  def record(run, event, payload) do
    with {:ok, run} <- apply_event(run, event, payload) do
      {:ok, %{run | events: [{event, payload} | run.events]}}
    end
  end

  defp apply_event(run, "run:complete", %{"reason" => reason}), do: {:ok, finish(run, reason)}

  defp apply_event(run, "step:" <> _ = event, %{"step_id" => step}) do
    if {event, step} in run.steps do
      {:error, %{step_id: ["has already been taken"]}}
    else
      {:ok, %{run | steps: MapSet.put(run.steps, {event, step})}}
    end
  end

  defp apply_event(run, event, _payload) when event in ~w(run:start run:log run:batch_logs) do
    {:ok, run}
  end

  # A crash here would be the queue's, and the end of every other run.
  defp apply_event(_run, _event, _payload), do: {:error, %{errors: %{payload: ["is incomplete"]}}}
end
