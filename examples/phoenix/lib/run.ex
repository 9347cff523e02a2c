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
    # What has become of each step, the ids of the outputs, and all events, the latest first.
    steps: %{},
    outputs: [],
    events: []
  ]

  @reasons ~w(success fail crash kill cancel exception)
  @taken %{step_id: ["has already been taken"]}
  @levels ~w(success always info warn error debug)

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

  defp apply_event(run, "run:complete", %{"reason" => reason} = payload) do
    cond do
      reason not in @reasons -> {:error, %{state: ["is invalid"]}}
      not known?(run, payload["final_dataclip_id"]) -> unknown(:final_dataclip_id)
      true -> {:ok, finish(run, reason)}
    end
  end

  defp apply_event(run, "step:start", %{"step_id" => step} = payload) do
    cond do
      run.steps[step] -> {:error, @taken}
      not known?(run, payload["input_dataclip_id"]) -> unknown(:input_dataclip_id)
      true -> {:ok, %{run | steps: Map.put(run.steps, step, :started)}}
    end
  end

  defp apply_event(run, "step:complete", %{"step_id" => step} = payload) do
    outputs = [payload["output_dataclip_id"] | run.outputs]

    case run.steps[step] do
      :started -> {:ok, %{run | steps: Map.put(run.steps, step, :completed), outputs: outputs}}
      :completed -> {:error, @taken}
      nil -> {:error, %{step_id: ["not found"]}}
    end
  end

  defp apply_event(run, "run:log", line), do: lines(run, [line])
  defp apply_event(run, "run:batch_logs", %{"logs" => [_ | _] = lines}), do: lines(run, lines)
  defp apply_event(run, "run:start", _payload), do: {:ok, run}

  # A crash here would be the queue's, and the end of every other run.
  defp apply_event(_run, _event, _payload), do: {:error, %{errors: %{payload: ["is incomplete"]}}}

  # All lines or none: the first that is bad is the answer.
  defp lines(run, lines) do
    Enum.find_value(lines, {:ok, run}, fn
      %{"level" => level} when level not in @levels -> {:error, %{level: ["is invalid"]}}
      %{"step_id" => id} when not is_map_key(run.steps, id) and id != nil -> no_step()
      line -> unless is_map(line), do: {:error, %{errors: %{logs: ["is invalid"]}}}
    end)
  end

  defp no_step, do: {:error, %{step_id: ["must be associated with the run"]}}
  defp unknown(field), do: {:error, %{errors: %{field => ["does not exist"]}}}

  # What an event refers to is the run's input or an output, if it refers to anything.
  defp known?(run, id), do: id in [nil, run.plan["dataclip_id"] | run.outputs]
end
