defmodule WorkerServer.WorkerSocket do
  @moduledoc """
  The connection of one worker. Its token is a JWT that the worker signs with the
  secret it shares with the server (HS256), and names the worker by `worker_id`.

  A worker keeps its id across reconnects. One with more runs than a socket carries
  topics opens further sockets under the same id.
  """
  use Phoenix.Socket

  channel("worker:queue", WorkerServer.WorkerChannel)
  channel("run:*", WorkerServer.RunChannel)

  @impl true
  def connect(%{"token" => token}, socket, _connect_info) do
    secret = Application.fetch_env!(:worker_server, :worker_secret)

    case verify(token, secret) do
      {:ok, %{"iss" => "urn:openfn:worker", "iat" => _, "worker_id" => worker} = claims} ->
        if begun?(claims), do: {:ok, assign(socket, :worker, worker)}, else: :error

      _ ->
        :error
    end
  end

  def connect(_params, _socket, _connect_info), do: :error

  @impl true
  def id(socket), do: "worker:" <> socket.assigns.worker

  @doc "Returns the claims of a token that was signed with the secret."
  def verify(token, secret) do
    with [header, claims, signature] <- String.split(token, "."),
         {:ok, %{"alg" => "HS256"}} <- decode(header),
         {:ok, given} <- Base.url_decode64(signature, padding: false),
         wanted = :crypto.mac(:hmac, :sha256, secret, header <> "." <> claims),
         true <- same?(given, wanted) do
      decode(claims)
    else
      _ -> :error
    end
  end

  # Of the times of a token Lightning looks at this one alone.
  defp begun?(claims), do: Map.get(claims, "nbf", 0) <= System.os_time(:second)

  defp decode(part) do
    with {:ok, json} <- Base.url_decode64(part, padding: false), do: Jason.decode(json)
  end

  # Takes as long wherever the two differ, so that a signature cannot be guessed
  # byte by byte.
  defp same?(a, b) when byte_size(a) == byte_size(b) do
    import Bitwise

    Enum.zip(:binary.bin_to_list(a), :binary.bin_to_list(b))
    |> Enum.reduce(0, fn {x, y}, sum -> sum ||| bxor(x, y) end)
    |> Kernel.==(0)
  end

  defp same?(_a, _b), do: false
end
