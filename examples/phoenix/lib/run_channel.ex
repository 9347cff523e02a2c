defmodule WorkerServer.RunChannel do
  @moduledoc """
  `run:<id>`: where the worker that has claimed a run fetches what it needs and
  reports what happens.

  Every event goes to the queue, which looks who owns the run and records the event in
  one step. A channel that is not the owner's any more answers `lease_lost` and ends with
  `phx_close`: a worker that was frozen and comes back changes nothing.
  """
  use Phoenix.Channel

  alias WorkerServer.{Extensions, RunQueue}

  @events ~w(run:start step:start step:complete run:log run:batch_logs run:complete)

  @impl true
  def join("run:" <> id, %{"token" => token} = payload, socket) when is_binary(token) do
    {agreed, reply} = Extensions.agree(payload, :run, RunQueue.terms())

    case RunQueue.join(id, token, "lease" in agreed) do
      :ok ->
        {:ok, reply, assign(socket, run: id, agreed: agreed)}

      {:error, reason} ->
        {:error, %{reason: to_string(reason)}}
    end
  end

  def join(_topic, _payload, _socket), do: {:error, %{reason: "unauthorized"}}

  @impl true
  def handle_in("fetch:plan", _payload, socket) do
    answer(RunQueue.fetch(socket.assigns.run, :plan), socket)
  end

  # A binary reply: the JSON text of the dataclip, as it is stored.
  def handle_in("fetch:dataclip", _payload, socket) do
    case RunQueue.fetch(socket.assigns.run, :input) do
      {:ok, json} -> {:reply, {:ok, {:binary, json}}, socket}
      refusal -> answer(refusal, socket)
    end
  end

  def handle_in("fetch:credential", %{"id" => id}, socket) do
    answer(RunQueue.fetch(socket.assigns.run, {:credential, id}), socket)
  end

  def handle_in("run:renew", _payload, socket) do
    true = agreed?(socket, "lease")

    case RunQueue.renew(socket.assigns.run) do
      {:ok, ms} -> {:reply, {:ok, %{lease_ms: ms}}, socket}
      refusal -> answer(refusal, socket)
    end
  end

  def handle_in(event, payload, socket) when event in @events do
    case RunQueue.record(socket.assigns.run, event, payload) do
      :ok -> {:reply, {:ok, receipt(event, payload)}, socket}
      refusal -> answer(refusal, socket)
    end
  end

  @impl true
  def handle_info({:cancel, message}, socket) do
    if agreed?(socket, "cancel"), do: push(socket, "run:cancel", %{message: message})
    {:noreply, socket}
  end

  def handle_info({:notify, notice}, socket) do
    if agreed?(socket, "notify"), do: push(socket, "run:notify", notice)
    {:noreply, socket}
  end

  # The run was given away, or joined over another connection. A channel that stops by
  # itself ends with phx_close.
  def handle_info(:disown, socket), do: {:stop, {:shutdown, :lease_lost}, socket}

  defp agreed?(socket, name), do: name in socket.assigns.agreed

  defp answer({:ok, value}, socket), do: {:reply, {:ok, value}, socket}

  defp answer({:error, :lease_lost}, socket) do
    {:stop, {:shutdown, :lease_lost}, {:error, %{reason: "lease_lost"}}, socket}
  end

  defp answer({:error, errors}, socket), do: {:reply, {:error, errors}, socket}

  # What the worker is told of an event that was recorded.
  defp receipt("step:" <> _, %{"step_id" => id}), do: %{step_id: id}
  defp receipt("run:log", _payload), do: %{log_line_id: unique()}

  defp receipt("run:batch_logs", %{"logs" => lines}),
    do: %{log_line_ids: Enum.map(lines, fn _ -> unique() end)}

  defp receipt(_event, _payload), do: nil

  defp unique, do: Integer.to_string(System.unique_integer([:positive]))
end
