defmodule WorkerServer.RunQueue do
  @moduledoc """
  The runs, who owns each, and until when.

  A run has one owner at most: the channel that has joined with its latest token. Every
  question of ownership is decided by this process, in the order in which the questions
  come, and in one step with what follows from the answer.

  Durations are in milliseconds, and time is this node's monotonic clock: no clock of a
  worker's matters. A timer carries what it was set for, and does nothing once that has
  changed.

  Everything is in memory. With a database, a claim is one `UPDATE … RETURNING` over rows
  that are locked with `SKIP LOCKED`, and an event is recorded in the transaction that
  looks whose the run is.
  """
  use GenServer
  import WorkerServer.Run, only: [is_owned: 1, is_waiting: 1]
  alias WorkerServer.Run

  @terms %{
    # how long a run is its worker's, from the claim or the latest renewal on
    lease_ms: 1_200_000,
    # how long a worker may take from the claim to the join of the run's topic
    ack_ms: 20_000,
    # how long a claim may wait for a run
    max_wait_ms: 20_000,
    # how often a worker is to send its status, and when it counts as silent
    interval_ms: 15_000,
    silence_ms: 30_000,
    # how many runs may wait to be claimed
    max_queued: 1_000
  }

  @reasons ~w(requeue postpone drain prefetch)
  @longest_delay 24 * 60 * 60 * 1000

  ## For the application

  @doc "Starts the queue. Options are the terms above."
  def start_link(opts \\ []) do
    GenServer.start_link(__MODULE__, Map.merge(@terms, Map.new(opts)), name: __MODULE__)
  end

  @doc """
  Adds a run: `%{id: id, plan: map}`, and perhaps `queue:`, `input:` (JSON text), and
  `credentials:` (a map by id). Returns `:ok`, `{:error, :duplicate}` or `{:error, :full}`.
  """
  def enqueue(%{id: id, plan: %{}} = run) when is_binary(id), do: call({:enqueue, run})

  @doc "Cancels a run: at once if nobody has it, else by asking its worker."
  def cancel(id, message \\ "Cancelled by an operator"), do: call({:cancel, id, message})

  @doc "Sends a map to a run that is being executed."
  def notify(id, notice) when is_map(notice), do: call({:notify, id, notice})

  @doc "Asks all workers to finish and leave."
  def drain, do: call(:drain)

  @doc "Returns a run, or nil."
  def info(id), do: call({:info, id})

  ## For the channel of worker:queue

  @doc "Returns the terms."
  def terms, do: call(:terms)

  @doc "Makes the caller known as a worker's channel."
  def enter, do: call(:enter)

  @doc """
  Claims runs: `%{ref:, worker:, demand:, queues:, wait_ms:, agreed:}`. The caller gets
  `{:claimed, ref, runs}`, at once or when the wait is over.
  """
  def claim(%{demand: demand} = claim) when is_integer(demand) and demand >= 0 do
    call({:claim, claim})
  end

  @doc "Gives a run back: `:ok`, or `{:error, :not_claimed}`."
  def release(id, token, reason, delay)
      when reason in @reasons and is_integer(delay) and delay >= 0 do
    call({:release, id, token, reason, min(delay, @longest_delay)})
  end

  @doc "Notes that a worker is there."
  def status(worker, draining) when is_boolean(draining), do: call({:status, worker, draining})

  ## For the channels of run:<id>

  @doc """
  Makes the caller the owner of the run: `:ok`, or `{:error, reason}`. One that cannot
  renew the lease has none: the run is its own until it is over.
  """
  def join(id, token, renews \\ true) when is_binary(token), do: call({:join, id, token, renews})

  @doc "Begins the lease anew: `{:ok, milliseconds}`, or `{:error, :lease_lost}`."
  def renew(id), do: call({:owned, id, :renew})

  @doc "Returns `{:ok, value}` of `:plan`, `:input` or `{:credential, id}`."
  def fetch(id, what), do: call({:owned, id, {:fetch, what}})

  @doc "Records an event: `:ok`, `{:error, :lease_lost}` or `{:error, errors}`."
  def record(id, event, payload), do: call({:owned, id, {:record, event, payload}})

  defp call(request), do: GenServer.call(__MODULE__, request)

  ## The process

  # channels: the pids of worker:queue. waiting: claims, the oldest first. heard: when
  # the latest status of a worker came. draining: the workers that stop.
  @impl true
  def init(terms) do
    {:ok,
     %{
       terms: terms,
       runs: %{},
       channels: MapSet.new(),
       waiting: [],
       heard: %{},
       draining: MapSet.new()
     }}
  end

  @impl true
  def handle_call({:enqueue, run}, _from, state) do
    queued = Enum.count(state.runs, fn {_, run} -> is_waiting(run.state) end)

    cond do
      state.runs[run.id] -> {:reply, {:error, :duplicate}, state}
      queued >= state.terms.max_queued -> {:reply, {:error, :full}, state}
      true -> {:reply, :ok, state |> put(Run.new(run)) |> offer()}
    end
  end

  def handle_call({:cancel, id, message}, _from, state) do
    case state.runs[id] do
      %{state: s} = run when is_waiting(s) ->
        {:reply, :ok, put(state, Run.finish(run, "cancel"))}

      %{state: s} = run when is_owned(s) ->
        tell(run, {:cancel, message})
        {:reply, :ok, put(state, %{run | cancel: message})}

      _ ->
        {:reply, {:error, :not_found}, state}
    end
  end

  def handle_call({:notify, id, notice}, _from, state) do
    case state.runs[id] do
      %{state: :joined} = run -> {:reply, tell(run, {:notify, notice}), state}
      _ -> {:reply, {:error, :not_joined}, state}
    end
  end

  def handle_call(:drain, _from, state) do
    Enum.each(state.channels, &send(&1, :drain))
    {:reply, :ok, state}
  end

  def handle_call({:info, id}, _from, state), do: {:reply, state.runs[id], state}

  def handle_call(:terms, _from, state), do: {:reply, state.terms, state}

  def handle_call(:enter, {pid, _}, state) do
    Process.monitor(pid)
    {:reply, :ok, %{state | channels: MapSet.put(state.channels, pid)}}
  end

  def handle_call({:claim, claim}, {pid, _}, state) do
    wait = claim.wait_ms |> max(0) |> min(state.terms.max_wait_ms)
    claim = Map.merge(claim, %{pid: pid, until: now() + wait})
    if wait > 0, do: Process.send_after(self(), {:wait_over, claim.ref}, wait)
    {:reply, :ok, serve(claim, state)}
  end

  def handle_call({:release, id, token, reason, delay}, _from, state) do
    case state.runs[id] do
      %{token: ^token, state: s} = run when is_owned(s) ->
        {:reply, :ok, take_back(state, run, reason == "requeue", delay)}

      _ ->
        {:reply, {:error, :not_claimed}, state}
    end
  end

  def handle_call({:status, worker, draining}, _from, state) do
    at = now()
    Process.send_after(self(), {:silent, worker, at}, state.terms.silence_ms)
    state = put_in(state.heard[worker], at)
    {:reply, :ok, if(draining, do: dismiss(state, worker), else: state)}
  end

  # Also when the run is over: a worker whose run:complete was not answered says it again.
  def handle_call({:join, id, token, renews}, {pid, _}, state) do
    case state.runs[id] do
      nil ->
        {:reply, {:error, :not_found}, state}

      %{token: ^token} = run ->
        if run.channel != pid, do: tell(run, :disown)
        if run.cancel, do: send(pid, {:cancel, run.cancel})
        run = if renews, do: run, else: %{run | until: nil}
        {:reply, :ok, put(state, Run.join(run, pid))}

      run ->
        reason = if token in run.old_tokens, do: :lease_lost, else: :unauthorized
        {:reply, {:error, reason}, state}
    end
  end

  # Only the channel that has the run may do something with it.
  def handle_call({:owned, id, what}, {pid, _}, state) do
    case state.runs[id] do
      %{channel: ^pid} = run -> owned(what, run, state)
      _ -> {:reply, {:error, :lease_lost}, state}
    end
  end

  @impl true
  def handle_info({:lease_over, id, until}, state) do
    case state.runs[id] do
      %{until: ^until} = run ->
        {:noreply, state |> end_waits_of(run.worker) |> take_back(run, true, 0)}

      _ ->
        {:noreply, state}
    end
  end

  # Who has not joined has not begun, so the run is not to blame.
  def handle_info({:not_joined, id, token}, state) do
    case state.runs[id] do
      %{token: ^token, state: :claimed} = run -> {:noreply, take_back(state, run, false, 0)}
      _ -> {:noreply, state}
    end
  end

  def handle_info({:available, id}, state) do
    case state.runs[id] do
      %{state: :delayed} = run -> {:noreply, state |> put(%{run | state: :available}) |> offer()}
      _ -> {:noreply, state}
    end
  end

  def handle_info({:wait_over, ref}, state) do
    {:noreply, end_waits(state, &(&1.ref == ref))}
  end

  # Whatever the leases say: nobody is there.
  def handle_info({:silent, worker, at}, state) do
    if state.heard[worker] == at do
      runs = for {_, %{worker: ^worker, state: s} = run} <- state.runs, is_owned(s), do: run
      {_, state} = pop_in(state.heard[worker])
      state = end_waits_of(state, worker)
      state = %{state | draining: MapSet.delete(state.draining, worker)}
      {:noreply, Enum.reduce(runs, state, &take_back(&2, &1, true, 0))}
    else
      {:noreply, state}
    end
  end

  # A claim that waits must not be given a run of which nobody would hear. The runs of a
  # worker that is away stay its own: it may be back in a moment.
  def handle_info({:DOWN, _, :process, pid, _}, state) do
    waiting = Enum.reject(state.waiting, &(&1.pid == pid))
    {:noreply, %{state | channels: MapSet.delete(state.channels, pid), waiting: waiting}}
  end

  defp owned(:renew, %{state: :joined} = run, state) do
    {:reply, {:ok, state.terms.lease_ms}, put(state, lease(run, state))}
  end

  defp owned(:renew, _over, state), do: {:reply, {:error, :lease_lost}, state}

  defp owned({:fetch, what}, run, state), do: {:reply, Run.part(run, what), state}

  defp owned({:record, event, payload}, run, state) do
    case Run.record(run, event, payload) do
      {:ok, run} -> {:reply, :ok, put(state, run)}
      refusal -> {:reply, refusal, state}
    end
  end

  ## Giving runs away, and taking them back

  # A claim gets runs now, or waits, or gets none.
  defp serve(claim, state) do
    draining = claim.worker in state.draining
    runs = if draining, do: [], else: choose(claim, state.runs)

    if runs == [] and claim.until > now() and not draining do
      %{state | waiting: state.waiting ++ [claim]}
    else
      runs = Enum.map(runs, &give(&1, claim, state))
      answer(claim, Enum.map(runs, &told(&1, claim, state)))
      Enum.reduce(runs, state, &put(&2, &1))
    end
  end

  # A run has become available: the claims that wait come first.
  defp offer(state) do
    state = Enum.reduce(state.waiting, %{state | waiting: []}, &serve/2)
    Enum.each(state.channels, &send(&1, :work_available))
    state
  end

  # With "*" among them, the queues of a claim are an order of preference; without, they
  # are all that it takes.
  defp choose(claim, runs) do
    rest = Enum.find_index(claim.queues, &(&1 == "*"))

    ranked =
      for {_, %{state: :available} = run} <- runs,
          rank = Enum.find_index(claim.queues, &(&1 == run.queue)) || rest,
          do: {if(rest, do: rank, else: 0), run.seq, run}

    ranked |> Enum.sort() |> Enum.take(claim.demand) |> Enum.map(&elem(&1, 2))
  end

  defp give(run, claim, state) do
    run = Run.claim(run, claim.worker)

    if "claim_ack" in claim.agreed do
      Process.send_after(self(), {:not_joined, run.id, run.token}, state.terms.ack_ms)
    end

    if "lease" in claim.agreed, do: lease(run, state), else: run
  end

  # A worker that knows no leases keeps its run until it is over. What to do about one
  # that never comes back is for a janitor, such as Lightning's.
  defp lease(run, state) do
    until = now() + state.terms.lease_ms
    Process.send_after(self(), {:lease_over, run.id, until}, state.terms.lease_ms)
    %{run | until: until}
  end

  # What the worker is told of a run: of the extensions, what was agreed on.
  defp told(run, claim, state) do
    extended = %{
      "lease" => {:lease_ms, state.terms.lease_ms},
      "attempt" => {:attempt, run.attempt}
    }

    agreed = extended |> Map.take(claim.agreed) |> Map.values() |> Map.new()
    Map.merge(%{id: run.id, token: run.token}, agreed)
  end

  defp take_back(state, run, blamed, delay) do
    tell(run, :disown)
    run = Run.take_back(run, delay > 0, blamed)

    cond do
      # It was to be cancelled; its worker has just not said so.
      run.cancel ->
        put(state, Run.finish(run, "cancel"))

      delay > 0 ->
        Process.send_after(self(), {:available, run.id}, delay)
        put(state, run)

      true ->
        state |> put(run) |> offer()
    end
  end

  # A worker that stops waits for nothing any more, and gets nothing.
  defp dismiss(state, worker) do
    end_waits_of(%{state | draining: MapSet.put(state.draining, worker)}, worker)
  end

  # A worker that is frozen may have claims here, which must not be given what is taken
  # from it.
  defp end_waits_of(state, worker), do: end_waits(state, &(&1.worker == worker))

  defp end_waits(state, over?) do
    {over, waiting} = Enum.split_with(state.waiting, over?)
    Enum.each(over, &answer(&1, []))
    %{state | waiting: waiting}
  end

  defp answer(claim, runs), do: send(claim.pid, {:claimed, claim.ref, runs})

  defp tell(%{channel: nil}, _message), do: :ok

  defp tell(%{channel: pid}, message) do
    send(pid, message)
    :ok
  end

  defp put(state, run), do: put_in(state.runs[run.id], run)

  defp now, do: System.monotonic_time(:millisecond)
end
