defmodule WorkerServer.ChannelsTest do
  use ExUnit.Case
  import Phoenix.ChannelTest, except: [join: 3]
  alias WorkerServer.{RunChannel, RunQueue, WorkerChannel, WorkerSocket}

  @endpoint WorkerServer.Endpoint
  @offer Map.new(~w(lease attempt release longpoll claim_ack status drain), &{&1, 1})

  defp start(opts \\ []), do: start_supervised!({RunQueue, opts})

  defp enqueue(id),
    do:
      RunQueue.enqueue(%{
        id: id,
        plan: %{"id" => id},
        input: ~s({"x":1}),
        credentials: %{"c" => %{}}
      })

  defp join(channel, topic, payload) do
    joined =
      socket(WorkerSocket, "worker:w", %{worker: "w"})
      |> subscribe_and_join(channel, topic, payload)

    with {:ok, _, socket} <- joined, do: Process.unlink(socket.channel_pid)
    joined
  end

  defp join_queue(payload \\ %{"extensions" => @offer}) do
    {:ok, _reply, socket} = join(WorkerChannel, "worker:queue", payload)
    socket
  end

  defp claim(queue, fields \\ %{}) do
    ref =
      push(
        queue,
        "claim",
        Map.merge(%{"demand" => 1, "worker_name" => nil, "queues" => ["*"]}, fields)
      )

    assert_reply ref, :ok, %{runs: runs}
    runs
  end

  # A run that this process has claimed and joined.
  defp joined(extensions \\ %{"lease" => 1, "cancel" => 1, "notify" => 1}) do
    enqueue("a")
    [%{token: token}] = claim(join_queue())
    {:ok, _, run} = join(RunChannel, "run:a", %{"token" => token, "extensions" => extensions})
    {run, token}
  end

  # Over an event without a clause, as over one that was not agreed on.
  defp crashes(socket, event, payload) do
    Process.flag(:trap_exit, true)
    monitor = Process.monitor(socket.channel_pid)
    push(socket, event, payload)
    assert_receive {:DOWN, ^monitor, _, _, reason}
    refute match?({:shutdown, _}, reason)
  end

  defp ends(socket) do
    monitor = Process.monitor(socket.channel_pid)
    assert_receive {:DOWN, ^monitor, _, _, reason}
    assert reason in [{:shutdown, :lease_lost}, :noproc]
  end

  describe "what is agreed on" do
    test "is what both know, on each topic its own" do
      start()

      offer = %{
        "extensions" => Map.merge(@offer, %{"cancel" => 1, "time_travel" => 1, "drain" => 0})
      }

      {:ok, reply, _} = join(WorkerChannel, "worker:queue", offer)

      assert reply.extensions == %{
               "lease" => %{v: 1, duration_ms: 1_200_000},
               "attempt" => %{v: 1},
               "release" => %{v: 1},
               "longpoll" => %{v: 1, max_wait_ms: 20_000},
               "claim_ack" => %{v: 1, timeout_ms: 20_000},
               "status" => %{v: 1, interval_ms: 15_000, timeout_ms: 30_000}
             }
    end

    test "is nothing with a worker that offers nothing" do
      start()
      assert {:ok, reply, _} = join(WorkerChannel, "worker:queue", %{"capacity" => 5})
      assert reply == %{}
    end

    test "is all that can be used" do
      start()
      enqueue("a")
      plain = join_queue(%{})
      [run] = claim(plain, %{"wait_ms" => 60_000})
      assert Map.keys(run) == [:id, :token]
      assert claim(plain, %{"wait_ms" => 60_000}) == []
      RunQueue.drain()
      refute_push "worker:drain", _
      release = %{"id" => "a", "token" => run.token, "reason" => "drain", "delay_ms" => 0}
      crashes(plain, "run:release", release)

      crashes(join_queue(%{}), "worker:status", %{
        "groups" => %{},
        "runs" => [],
        "draining" => false
      })
    end
  end

  describe "worker:queue" do
    test "tells of a run that is available" do
      start()
      join_queue()
      enqueue("a")
      assert_push "work-available", %{}
    end

    test "crashes over a claim without demand or worker_name, and over an unknown event" do
      start()
      crashes(join_queue(), "claim", %{"demand" => 1})
      crashes(join_queue(), "claim", %{"worker_name" => "w"})
      crashes(join_queue(), "no:such", %{})
    end

    test "answers other pushes while a claim waits" do
      start()
      queue = join_queue()
      claim = %{"demand" => 1, "worker_name" => nil, "queues" => ["*"], "wait_ms" => 10_000}
      waiting = push(queue, "claim", claim)
      status = %{"groups" => %{}, "runs" => [], "draining" => false}
      ref = push(queue, "worker:status", status)
      assert_reply ref, :ok, _
      enqueue("a")
      assert_reply waiting, :ok, %{runs: [%{id: "a"}]}
    end

    test "takes a run back, once, and closes its topic" do
      start()
      {run, token} = joined()
      queue = join_queue()
      release = %{"id" => "a", "token" => token, "reason" => "requeue", "delay_ms" => 0}
      ref = push(queue, "run:release", release)
      assert_reply ref, :ok, _
      ends(run)
      ref = push(queue, "run:release", release)
      assert_reply ref, :error, %{reason: "not_claimed"}
    end

    test "tells workers to drain" do
      start()
      join_queue()
      RunQueue.drain()
      assert_push "worker:drain", %{}
    end
  end

  describe "run:<id>" do
    test "has what a run needs, and takes what becomes of it" do
      start()
      {run, _} = joined()
      ref = push(run, "fetch:plan", %{})
      assert_reply ref, :ok, %{"id" => "a"}
      ref = push(run, "fetch:dataclip", %{"id" => "d"})
      assert_reply ref, :ok, {:binary, ~s({"x":1})}
      ref = push(run, "fetch:credential", %{"id" => "c"})
      assert_reply ref, :ok, %{}
      ref = push(run, "fetch:credential", %{"id" => "d"})
      assert_reply ref, :error, %{errors: %{id: ["Credential not found!"]}}
      ref = push(run, "run:start", %{"timestamp" => "1"})
      assert_reply ref, :ok, nil
      ref = push(run, "step:start", %{"step_id" => "s"})
      assert_reply ref, :ok, %{step_id: "s"}
      ref = push(run, "run:log", %{"message" => ["hello"]})
      assert_reply ref, :ok, %{log_line_id: _}
      ref = push(run, "run:complete", %{"reason" => "success"})
      assert_reply ref, :ok, nil
      ref = push(run, "run:complete", %{"reason" => "success"})
      assert_reply ref, :error, %{state: ["already in completed state"]}
      crashes(run, "no:such", %{})
    end

    test "lets in who has the token" do
      start()
      enqueue("a")
      assert join(RunChannel, "run:b", %{"token" => "t"}) == {:error, %{reason: "not_found"}}
      assert join(RunChannel, "run:a", %{"token" => "t"}) == {:error, %{reason: "unauthorized"}}
      assert join(RunChannel, "run:a", %{}) == {:error, %{reason: "unauthorized"}}
      # As the run has none itself before it is claimed.
      assert join(RunChannel, "run:a", %{"token" => nil}) == {:error, %{reason: "unauthorized"}}
    end

    test "renews the lease, where that was agreed on" do
      start()
      {run, token} = joined()
      ref = push(run, "run:renew", %{})
      assert_reply ref, :ok, %{lease_ms: 1_200_000}
      {:ok, reply, plain} = join(RunChannel, "run:a", %{"token" => token})
      assert reply == %{}
      crashes(plain, "run:renew", %{})
    end

    test "is closed, and every event refused, once the run is another's" do
      start()
      {run, token} = joined()
      # As if it were frozen: what it has sent is read once the run was given away.
      :erlang.suspend_process(run.channel_pid)
      renew = push(run, "run:renew", %{})
      log = push(run, "run:log", %{"message" => ["late"]})
      send(RunQueue, {:lease_over, "a", RunQueue.info("a").until})
      assert %{attempt: 2, token: nil} = RunQueue.info("a")
      :erlang.resume_process(run.channel_pid)
      assert_reply renew, :error, %{reason: "lease_lost"}
      ends(run)
      refute_reply log, :ok, _, 0
      assert join(RunChannel, "run:a", %{"token" => token}) == {:error, %{reason: "lease_lost"}}
      assert RunQueue.info("a").events == []
    end

    test "passes on cancellations and notices, where that was agreed on" do
      start()
      {_run, token} = joined()
      RunQueue.notify("a", %{"stock" => 3})
      assert_push "run:notify", %{"stock" => 3}
      RunQueue.cancel("a", "not needed")
      assert_push "run:cancel", %{message: "not needed"}

      {:ok, _, _} = join(RunChannel, "run:a", %{"token" => token})
      RunQueue.notify("a", %{"stock" => 4})
      refute_push "run:notify", _
      refute_push "run:cancel", _
    end
  end

  test "the log shows no tokens" do
    payload = %{"token" => "secret", "demand" => 1}
    assert Phoenix.Logger.filter_values(payload) == %{"token" => "[FILTERED]", "demand" => 1}
  end

  describe "the socket" do
    defp signed(claims, secret) do
      parts =
        for part <- [%{alg: "HS256", typ: "JWT"}, claims],
            do: Base.url_encode64(Jason.encode!(part), padding: false)

      text = Enum.join(parts, ".")
      text <> "." <> Base.url_encode64(:crypto.mac(:hmac, :sha256, secret, text), padding: false)
    end

    defp connect(token), do: WorkerSocket.connect(%{"token" => token}, %Phoenix.Socket{}, %{})

    test "lets in workers that know the secret" do
      claims = %{iss: "urn:openfn:worker", iat: 1, worker_id: "w"}
      secret = Application.fetch_env!(:worker_server, :worker_secret)
      assert {:ok, %{assigns: %{worker: "w"}} = socket} = connect(signed(claims, secret))
      assert WorkerSocket.id(socket) == "worker:w"
      assert connect(signed(claims, "another")) == :error
      assert connect(signed(Map.delete(claims, :worker_id), secret)) == :error
      now = System.os_time(:second)
      assert {:ok, _} = connect(signed(Map.put(claims, :nbf, now - 60), secret))
      assert connect(signed(Map.put(claims, :nbf, now + 60), secret)) == :error
      assert connect("no token") == :error
      assert connect("a.b.c") == :error
      assert WorkerSocket.connect(%{}, %Phoenix.Socket{}, %{}) == :error
      # One that says it needs no signature.
      [_, claims, _] = String.split(signed(claims, secret), ".")
      header = Base.url_encode64(~s({"alg":"none"}), padding: false)
      assert connect(header <> "." <> claims <> ".") == :error
    end
  end
end
