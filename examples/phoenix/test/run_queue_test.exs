defmodule WorkerServer.RunQueueTest do
  use ExUnit.Case
  alias WorkerServer.RunQueue

  @all ~w(lease attempt release longpoll claim_ack status drain)

  defp start(opts \\ []), do: start_supervised!({RunQueue, opts})

  defp enqueue(id, fields \\ %{}), do: RunQueue.enqueue(Map.merge(%{id: id, plan: %{}}, fields))

  defp ask(opts \\ []) do
    ref = make_ref()
    claim = %{ref: ref, worker: "w", demand: 1, queues: ["*"], wait_ms: 0, agreed: @all}
    RunQueue.claim(Map.merge(claim, Map.new(opts)))
    ref
  end

  defp claim(opts \\ []) do
    ref = ask(opts)
    assert_receive {:claimed, ^ref, runs}
    runs
  end

  defp claim_one(opts \\ []) do
    [run] = claim(opts)
    run
  end

  # Somebody else, who can claim and join as this process does.
  defp other, do: start_supervised!({Agent, fn -> nil end}, id: make_ref())
  defp by(other, what), do: Agent.get(other, fn _ -> what.() end)

  describe "claims" do
    test "a run is given away once" do
      start()
      enqueue("a")
      assert %{id: "a", lease_ms: 1_200_000, attempt: 1} = claim_one()
      assert claim() == []
    end

    test "a run says nothing that was not agreed on" do
      start()
      enqueue("a")
      assert claim_one(agreed: []) |> Map.keys() == [:id, :token]
    end

    test "queues are an order with the wildcard, and a filter without" do
      start()

      for {id, queue} <- [a: "default", b: "manual", c: "fast"],
          do: enqueue("#{id}", %{queue: queue})

      assert claim(queues: ["other"]) == []
      assert ["b", "a", "c"] = claim(queues: ["manual", "*"], demand: 3) |> Enum.map(& &1.id)
    end

    test "an id that is known is refused, and a run over the bound" do
      start(max_queued: 2)
      assert enqueue("a") == :ok
      assert enqueue("a") == {:error, :duplicate}
      assert enqueue("b") == :ok
      assert enqueue("c") == {:error, :full}
      claim()
      assert enqueue("c") == :ok
    end

    test "a claim waits for a run, the oldest first" do
      start()
      first = ask(wait_ms: 10_000)
      second = ask(wait_ms: 10_000)
      enqueue("a")
      assert_receive {:claimed, ^first, [%{id: "a"}]}
      enqueue("b")
      assert_receive {:claimed, ^second, [%{id: "b"}]}
    end

    test "a wait ends with nothing, and no later than the server wants" do
      start(max_wait_ms: 20)
      ref = ask(wait_ms: 3_600_000)
      assert_receive {:claimed, ^ref, []}, 10_000
    end

    test "a claim of a channel that is gone gets nothing" do
      start()
      pid = self()

      task =
        spawn(fn ->
          RunQueue.enter()
          ask(wait_ms: 10_000)
          send(pid, :asked)
        end)

      assert_receive :asked
      monitor = Process.monitor(task)
      assert_receive {:DOWN, ^monitor, _, _, _}
      eventually(fn -> :sys.get_state(RunQueue).waiting == [] end)
      enqueue("a")
      assert %{id: "a"} = claim_one()
    end

    test "a worker that stops waits for nothing and gets nothing" do
      start()
      ref = ask(wait_ms: 10_000)
      RunQueue.status("w", true)
      assert_receive {:claimed, ^ref, []}
      enqueue("a")
      assert claim(wait_ms: 10_000) == []
      assert %{id: "a"} = claim_one(worker: "v")
    end
  end

  describe "ownership" do
    test "is with the latest token only" do
      start(lease_ms: 30)
      enqueue("a")
      %{token: old} = claim_one()
      assert RunQueue.join("a", old) == :ok
      assert RunQueue.record("a", "run:start", %{}) == :ok

      assert_receive :disown, 10_000

      assert RunQueue.record("a", "run:complete", %{"reason" => "success"}) ==
               {:error, :lease_lost}

      assert RunQueue.renew("a") == {:error, :lease_lost}
      assert RunQueue.join("a", old) == {:error, :lease_lost}
      assert RunQueue.release("a", old, "requeue", 0) == {:error, :not_claimed}
      assert RunQueue.join("a", "made up") == {:error, :unauthorized}
      assert RunQueue.join("b", old) == {:error, :not_found}

      %{token: new, attempt: 2} = claim_one(worker: "v", agreed: ["attempt"])
      other = other()
      assert by(other, fn -> RunQueue.join("a", new) end) == :ok
      assert RunQueue.record("a", "run:log", %{}) == {:error, :lease_lost}
      done = %{"reason" => "success"}
      assert by(other, fn -> RunQueue.record("a", "run:complete", done) end) == :ok

      assert %{state: {:over, "success"}, events: [{"run:complete", _}, {"run:start", _}]} =
               RunQueue.info("a")
    end

    test "goes to the channel that joined last with the same token" do
      start()
      enqueue("a")
      %{token: token} = claim_one()
      assert RunQueue.join("a", token) == :ok
      other = other()
      assert by(other, fn -> RunQueue.join("a", token) end) == :ok
      assert_receive :disown
      assert RunQueue.record("a", "run:log", %{}) == {:error, :lease_lost}
      assert by(other, fn -> RunQueue.record("a", "run:log", %{}) end) == :ok
    end

    test "a second copy of an event is refused" do
      start()
      enqueue("a")
      RunQueue.join("a", claim_one().token)
      assert RunQueue.record("a", "step:start", %{"step_id" => "s"}) == :ok

      assert {:error, %{step_id: ["has already been taken"]}} =
               RunQueue.record("a", "step:start", %{"step_id" => "s"})

      assert RunQueue.record("a", "step:complete", %{"step_id" => "s"}) == :ok
      assert RunQueue.record("a", "run:complete", %{"reason" => "fail"}) == :ok

      assert {:error, %{state: ["already in completed state"]}} =
               RunQueue.record("a", "run:complete", %{"reason" => "fail"})
    end
  end

  describe "an event that lacks what it must have" do
    test "is refused, and ends neither the run nor the queue" do
      pid = start()
      enqueue("a")
      RunQueue.join("a", claim_one().token)

      for event <- ~w(step:start step:complete run:complete) do
        assert {:error, %{errors: _}} = RunQueue.record("a", event, %{})
        assert {:error, %{errors: _}} = RunQueue.record("a", event, nil)
      end

      assert Process.whereis(RunQueue) == pid
      assert %{state: :joined, events: []} = RunQueue.info("a")
    end
  end

  describe "an event that refers to what there is not" do
    test "is refused, and the run goes on" do
      start()
      enqueue("a")
      RunQueue.join("a", claim_one().token)
      record = &RunQueue.record("a", &1, &2)

      assert {:error, %{step_id: _}} = record.("step:complete", %{"step_id" => "s"})
      assert {:error, %{step_id: _}} = record.("run:log", %{"step_id" => "s"})
      line = %{"level" => "whisper"}
      assert {:error, %{level: _}} = record.("run:batch_logs", %{"logs" => [%{}, line]})
      assert {:error, _} = record.("run:batch_logs", %{"logs" => ["no line"]})
      step = %{"step_id" => "s", "input_dataclip_id" => "d"}
      assert {:error, %{errors: %{input_dataclip_id: _}}} = record.("step:start", step)

      assert {:error, %{state: ["is invalid"]}} =
               record.("run:complete", %{"reason" => "boredom"})

      complete = %{"reason" => "success", "final_dataclip_id" => "d"}
      assert {:error, %{errors: %{final_dataclip_id: _}}} = record.("run:complete", complete)

      assert record.("step:start", %{"step_id" => "s"}) == :ok
      assert record.("step:complete", %{"step_id" => "s", "output_dataclip_id" => "d"}) == :ok
      assert record.("run:complete", complete) == :ok
    end
  end

  test "a run that is printed shows no tokens" do
    start()
    enqueue("a", %{credentials: %{"c" => %{"password" => "secret"}}})
    %{token: token} = claim_one()
    RunQueue.release("a", token, "drain", 0)
    claim_one()
    printed = inspect(:sys.get_state(RunQueue), limit: :infinity)
    assert printed =~ ~s(id: "a")
    for hidden <- [token, RunQueue.info("a").token, "secret"], do: refute(printed =~ hidden)
  end

  describe "leases" do
    test "a renewal begins the lease anew" do
      start(lease_ms: 200)
      enqueue("a")
      RunQueue.join("a", claim_one().token)
      before = RunQueue.info("a").until
      # What the timer says once time has passed, said now.
      assert RunQueue.renew("a") == {:ok, 200}
      send(RunQueue, {:lease_over, "a", before - 1})
      assert %{state: :joined} = RunQueue.info("a")
      send(RunQueue, {:lease_over, "a", RunQueue.info("a").until})
      assert %{state: :available, attempt: 2} = RunQueue.info("a")
      assert_receive :disown
    end

    test "a run whose lease is over does not go to its worker's own claim" do
      start(lease_ms: 30)
      enqueue("a")
      claim_one()
      its = ask(wait_ms: 10_000)
      other = ask(wait_ms: 10_000, worker: "v")
      assert_receive {:claimed, ^other, [%{id: "a", attempt: 2}]}, 10_000
      assert_receive {:claimed, ^its, []}
    end

    test "a run without a lease stays its worker's" do
      start(lease_ms: 1)
      enqueue("a")
      claim_one(agreed: ["attempt"])
      assert %{state: :claimed, until: nil} = RunQueue.info("a")
    end

    test "a run whose worker cannot renew it stays its own" do
      start(lease_ms: 200)
      enqueue("a")
      token = claim_one().token
      until = RunQueue.info("a").until
      assert RunQueue.join("a", token, false) == :ok
      send(RunQueue, {:lease_over, "a", until})
      assert %{state: :joined, attempt: 1} = RunQueue.info("a")
    end

    test "a run that is over has no lease" do
      start(lease_ms: 20)
      enqueue("a")
      RunQueue.join("a", claim_one().token)
      until = RunQueue.info("a").until
      RunQueue.record("a", "run:complete", %{"reason" => "success"})
      send(RunQueue, {:lease_over, "a", until})
      assert %{state: {:over, "success"}} = RunQueue.info("a")
    end
  end

  describe "a run comes back" do
    test "from a worker that returns it, as another attempt only after a failure" do
      start()
      enqueue("a")

      for {reason, attempt} <- [
            {"postpone", 1},
            {"drain", 1},
            {"prefetch", 1},
            {"requeue", 1},
            {"drain", 2}
          ] do
        assert %{token: token, attempt: ^attempt} = claim_one()
        assert RunQueue.release("a", token, reason, 0) == :ok
        assert RunQueue.release("a", token, reason, 0) == {:error, :not_claimed}
      end

      assert %{attempt: 2} = claim_one()
    end

    test "after its delay" do
      start()
      enqueue("a")
      ref = ask()
      assert_receive {:claimed, ^ref, [%{token: token}]}
      RunQueue.release("a", token, "postpone", 20)
      assert %{state: :delayed} = RunQueue.info("a")
      ref = ask(wait_ms: 10_000)
      assert_receive {:claimed, ^ref, [%{id: "a"}]}, 10_000
    end

    test "when nobody joins its topic in time, as the same attempt" do
      start(ack_ms: 20)
      enqueue("a")
      %{token: token} = claim_one()
      ref = ask(wait_ms: 10_000)
      assert_receive {:claimed, ^ref, [%{attempt: 1}]}, 10_000
      assert RunQueue.join("a", token) == {:error, :lease_lost}
    end

    test "not when its topic was joined" do
      start()
      enqueue("a")
      %{token: token} = claim_one()
      RunQueue.join("a", token)
      send(RunQueue, {:not_joined, "a", token})
      assert %{state: :joined} = RunQueue.info("a")
    end

    test "when its worker is silent, whatever its lease says" do
      start(silence_ms: 30)
      enqueue("a")
      enqueue("b")
      enqueue("c")
      RunQueue.join("a", claim_one().token)
      claim_one()
      claim_one(worker: "v")
      RunQueue.status("w", false)
      assert_receive :disown, 10_000
      assert [%{id: "a", attempt: 2}, %{id: "b", attempt: 2}] = claim(demand: 3, worker: "v")
      assert %{worker: "v", attempt: 1} = RunQueue.info("c")
    end

    # A worker that is frozen may have a claim at the server that waits.
    test "and does not go to that worker's own claim" do
      start(silence_ms: 30)
      enqueue("a")
      claim_one()
      its = ask(wait_ms: 10_000)
      other = ask(wait_ms: 10_000, worker: "v")
      RunQueue.status("w", false)
      assert_receive {:claimed, ^other, [%{id: "a"}]}, 10_000
      assert_receive {:claimed, ^its, []}
    end

    test "not when a later status came" do
      start()
      enqueue("a")
      claim_one()
      RunQueue.status("w", false)
      send(RunQueue, {:silent, "w", :sys.get_state(RunQueue).heard["w"] - 1})
      assert %{state: :claimed} = RunQueue.info("a")
    end
  end

  describe "a cancellation" do
    test "ends a run that nobody has" do
      start()
      enqueue("a")
      assert RunQueue.cancel("a") == :ok
      assert claim() == []
      assert %{state: {:over, "cancel"}} = RunQueue.info("a")
      assert RunQueue.cancel("a") == {:error, :not_found}
    end

    test "reaches the worker, also one that joins later" do
      start()
      enqueue("a")
      %{token: token} = claim_one()
      assert RunQueue.cancel("a", "no") == :ok
      RunQueue.join("a", token)
      assert_receive {:cancel, "no"}
      assert RunQueue.cancel("a", "really") == :ok
      assert_receive {:cancel, "really"}
    end

    test "is what becomes of a run that comes back" do
      start()
      enqueue("a")
      %{token: token} = claim_one()
      RunQueue.cancel("a")
      assert RunQueue.release("a", token, "requeue", 0) == :ok
      assert %{state: {:over, "cancel"}} = RunQueue.info("a")
      assert claim() == []
    end
  end

  defp eventually(holds?, times \\ 1000) do
    unless holds?.() do
      if times == 0, do: flunk("it never came to be")
      :timer.sleep(1)
      eventually(holds?, times - 1)
    end
  end
end
