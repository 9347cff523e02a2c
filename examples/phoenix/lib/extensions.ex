defmodule WorkerServer.Extensions do
  @moduledoc """
  What a worker and this server agree on beyond Lightning's protocol.

  A worker offers extensions in the payload of a join, `%{"lease" => 1}`. The reply
  names those that the server knows as well, with its terms. Neither uses one that
  the other has not named, and a join that comes later is agreed on anew.
  """

  @queue ~w(lease attempt release longpoll claim_ack status drain)
  @run ~w(lease cancel notify)

  @doc "Returns which of the extensions of the topic were offered, and the reply to the join."
  def agree(payload, topic, queue_terms) do
    offer = offered(payload)
    agreed = for name <- names(topic), usable?(offer[name]), do: name

    case agreed do
      [] -> {[], %{}}
      _ -> {agreed, %{extensions: Map.new(agreed, &{&1, terms(&1, queue_terms)})}}
    end
  end

  defp names(:queue), do: @queue
  defp names(:run), do: @run

  defp offered(%{"extensions" => offer}) when is_map(offer), do: offer
  defp offered(_payload), do: %{}

  # The highest version that the worker knows. There is only the first of each.
  defp usable?(version), do: is_integer(version) and version >= 1

  defp terms("lease", t), do: %{v: 1, duration_ms: t.lease_ms}
  defp terms("longpoll", t), do: %{v: 1, max_wait_ms: t.max_wait_ms}
  defp terms("claim_ack", t), do: %{v: 1, timeout_ms: t.ack_ms}
  defp terms("status", t), do: %{v: 1, interval_ms: t.interval_ms, timeout_ms: t.silence_ms}
  defp terms(_name, _terms), do: %{v: 1}
end
