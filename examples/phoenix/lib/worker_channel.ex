defmodule WorkerServer.WorkerChannel do
  @moduledoc """
  `worker:queue`: where a worker claims runs and returns them.

  Over an event of an extension that was not agreed on with this join, the channel
  crashes, as over any unknown one. The worker sends none.
  """
  use Phoenix.Channel

  alias WorkerServer.{Extensions, RunQueue}

  @impl true
  def join("worker:queue", payload, socket) do
    {agreed, reply} = Extensions.agree(payload, :queue, RunQueue.terms())
    RunQueue.enter()
    {:ok, reply, assign(socket, :agreed, agreed)}
  end

  # Lightning's channel crashes as well when demand or worker_name is missing. The
  # answer comes when the queue has one, so that a claim that waits does not hold up
  # what the worker pushes meanwhile: a release, its status, the claim of another group.
  @impl true
  def handle_in("claim", %{"demand" => demand, "worker_name" => _} = payload, socket) do
    RunQueue.claim(%{
      ref: socket_ref(socket),
      worker: socket.assigns.worker,
      demand: demand,
      queues: queues(payload),
      wait_ms: if(agreed?(socket, "longpoll"), do: wait(payload), else: 0),
      agreed: socket.assigns.agreed
    })

    {:noreply, socket}
  end

  def handle_in("run:release", payload, socket) do
    true = agreed?(socket, "release")
    %{"id" => id, "token" => token, "reason" => reason, "delay_ms" => delay} = payload

    case RunQueue.release(id, token, reason, delay) do
      :ok -> {:reply, {:ok, %{}}, socket}
      {:error, :not_claimed} -> {:reply, {:error, %{reason: "not_claimed"}}, socket}
    end
  end

  # What the groups look like is for a page that shows the workers; the queue needs to
  # know that there is somebody, and whether the worker is about to stop.
  def handle_in("worker:status", %{"draining" => draining} = status, socket) do
    true = agreed?(socket, "status")
    %{"groups" => groups, "runs" => runs} = status
    RunQueue.status(socket.assigns.worker, draining)
    {:reply, {:ok, %{}}, assign(socket, :status, %{groups: groups, runs: runs})}
  end

  @impl true
  def handle_info({:claimed, ref, runs}, socket) do
    reply(ref, {:ok, %{runs: runs}})
    {:noreply, socket}
  end

  def handle_info(:work_available, socket) do
    push(socket, "work-available", %{})
    {:noreply, socket}
  end

  def handle_info(:drain, socket) do
    if agreed?(socket, "drain"), do: push(socket, "worker:drain", %{})
    {:noreply, socket}
  end

  defp agreed?(socket, name), do: name in socket.assigns.agreed

  defp queues(%{"queues" => [_ | _] = names}), do: names
  defp queues(_payload), do: ["manual", "*"]

  defp wait(%{"wait_ms" => ms}) when is_integer(ms), do: ms
  defp wait(_payload), do: 0
end
