# A websocket server for the fake Phoenix, so that a real worker can talk to the
# channels. It has the framing of Phoenix's version 2, and no more than a worker needs.

defmodule Fake.Server do
  # How much of a message is printed.
  @shown 10_000
  @guid "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

  @doc """
  Listens on the loopback address, if the endpoint is to be served, and prints on which
  port, and every message: "->" or "<-", and its text.
  """
  def start_link(endpoint) do
    if endpoint.config(:server), do: Task.start_link(fn -> listen(endpoint) end), else: :ignore
  end

  defp listen(endpoint) do
    opts = [:binary, active: false, ip: {127, 0, 0, 1}, reuseaddr: true]
    {:ok, listener} = :gen_tcp.listen(endpoint.config(:http)[:port], opts)
    {:ok, port} = :inet.port(listener)
    IO.puts("port #{port}")
    accept(listener, endpoint)
  end

  defp accept(listener, endpoint) do
    {:ok, tcp} = :gen_tcp.accept(listener)
    pid = spawn(fn -> serve(tcp, endpoint) end)
    :ok = :gen_tcp.controlling_process(tcp, pid)
    send(pid, :go)
    accept(listener, endpoint)
  end

  defp serve(tcp, endpoint) do
    receive do: (:go -> :ok)
    {head, rest} = read_head(tcp, "")
    {path, handler} = endpoint.__socket__()
    [_, ^path, query] = Regex.run(~r{^GET (\S+)/websocket\?(\S+) }, head)
    [_, key] = Regex.run(~r{^sec-websocket-key: (\S+)\r$}im, head)

    case handler.connect(URI.decode_query(query), %Phoenix.Socket{transport_pid: self()}, %{}) do
      {:ok, socket} ->
        accepted = Base.encode64(:crypto.hash(:sha, key <> @guid))

        :ok =
          :gen_tcp.send(tcp, [
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n",
            "connection: Upgrade\r\nsec-websocket-accept: #{accepted}\r\n\r\n"
          ])

        :ok = :inet.setopts(tcp, active: true)
        subscribe(handler.id(socket), endpoint)
        loop(%{tcp: tcp, handler: handler, socket: socket, topics: %{}, parts: []}, rest)

      :error ->
        :gen_tcp.send(tcp, "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    end
  end

  # A socket that has an id can be told to disconnect, by way of the endpoint's PubSub: there
  # must be one.
  defp subscribe(nil, _endpoint), do: :ok

  defp subscribe(_id, endpoint) do
    pid = Process.whereis(endpoint.config(:pubsub_server))
    unless pid, do: raise("no :pubsub_server configured for #{inspect(endpoint)}")
    :ok
  end

  defp read_head(tcp, text) do
    case String.split(text, "\r\n\r\n", parts: 2) do
      [head, rest] ->
        {head, rest}

      _ ->
        {:ok, more} = :gen_tcp.recv(tcp, 0)
        read_head(tcp, text <> more)
    end
  end

  # topics: by name, the channel's process and its join_ref. parts: of a message of text that
  # comes in several.
  defp loop(state, data) do
    case message(data) do
      {:part, :text, last, text, rest} ->
        loop(gather(%{state | parts: [state.parts, text]}, last), rest)

      {:part, :close, _, _, _} ->
        finish(state)

      {:part, :other, _, _, rest} ->
        loop(state, rest)

      :more ->
        receive do
          {:tcp, _, more} ->
            loop(state, data <> more)

          {:tcp_closed, _} ->
            finish(state)

          {:frame, join_ref, ref, topic, event, payload} ->
            write(state, encode(join_ref, ref, topic, event, payload))
            loop(forget(state, topic, join_ref, event), data)
        end
    end
  end

  defp gather(state, 0), do: state

  defp gather(state, 1) do
    text = IO.iodata_to_binary(state.parts)
    IO.puts("-> " <> String.slice(text, 0, @shown))
    {:ok, frame} = Jason.decode(text)
    hear(frame, %{state | parts: []})
  end

  defp finish(state) do
    for {_, {pid, _}} <- state.topics, do: Process.exit(pid, :kill)
    :gen_tcp.close(state.tcp)
  end

  defp hear([_, ref, "phoenix", "heartbeat", _], state) do
    write(state, encode(nil, ref, "phoenix", "phx_reply", {:ok, %{}}))
    state
  end

  defp hear([join_ref, ref, topic, "phx_join", payload], state) do
    case Enum.find(state.handler.__channels__(), fn {p, _} -> match(p, topic) end) do
      {_, module} ->
        socket = %{state.socket | topic: topic, join_ref: join_ref, ref: ref}
        pid = Phoenix.Channel.start(module, socket, payload)
        put_in(state.topics[topic], {pid, join_ref})

      nil ->
        unmatched(state, ref, topic)
    end
  end

  defp hear([join_ref, ref, topic, event, payload], state) do
    case state.topics[topic] do
      {pid, ^join_ref} ->
        send(pid, {:in, ref, event, payload})

      _ ->
        unmatched(state, ref, topic)
    end

    state
  end

  defp unmatched(state, ref, topic) do
    refusal = {:error, %{reason: "unmatched topic"}}
    write(state, encode(nil, ref, topic, "phx_reply", refusal))
    state
  end

  defp match(pattern, topic) do
    case String.split(pattern, "*") do
      [prefix, ""] -> String.starts_with?(topic, prefix)
      [_] -> pattern == topic
    end
  end

  defp forget(state, topic, join_ref, event) when event in ~w(phx_close phx_error) do
    case state.topics[topic] do
      {_, ^join_ref} -> %{state | topics: Map.delete(state.topics, topic)}
      _ -> state
    end
  end

  defp forget(state, _topic, _join_ref, _event), do: state

  defp encode(join_ref, ref, topic, "phx_reply", {status, {:binary, data}}) do
    parts = [join_ref, ref, topic, to_string(status)]
    {2, [1, Enum.map(parts, &byte_size/1), parts, data]}
  end

  defp encode(join_ref, ref, topic, "phx_reply", {status, response}) do
    payload = %{status: status, response: response}
    {1, Jason.encode!([join_ref, ref, topic, "phx_reply", payload])}
  end

  defp encode(join_ref, ref, topic, event, payload) do
    {1, Jason.encode!([join_ref, ref, topic, event, payload])}
  end

  defp write(state, {opcode, data}) do
    if opcode == 1, do: IO.puts("<- " <> data)

    length =
      case IO.iodata_length(data) do
        n when n < 126 -> <<n>>
        n when n < 65_536 -> <<126, n::16>>
        n -> <<127, n::64>>
      end

    :gen_tcp.send(state.tcp, [<<1::1, 0::3, opcode::4>>, length, data])
  end

  # The first message in the data, or the first part of one: what a client sends is masked.
  defp message(<<last::1, _::3, opcode::4, 1::1, 126::7, n::16, rest::binary>>),
    do: message(last, opcode, n, rest)

  defp message(<<last::1, _::3, opcode::4, 1::1, 127::7, n::64, rest::binary>>),
    do: message(last, opcode, n, rest)

  defp message(<<last::1, _::3, opcode::4, 1::1, n::7, rest::binary>>) when n < 126 do
    message(last, opcode, n, rest)
  end

  defp message(_data), do: :more

  defp message(last, opcode, n, data) do
    case data do
      <<mask::binary-size(4), text::binary-size(n), rest::binary>> ->
        {:part, kind(opcode), last, unmask(text, mask), rest}

      _ ->
        :more
    end
  end

  # What continues a message continues a text: no client sends another in parts.
  defp kind(opcode) when opcode in [0, 1], do: :text
  defp kind(8), do: :close
  defp kind(_), do: :other

  defp unmask(text, mask) do
    key = mask |> String.duplicate(div(byte_size(text), 4) + 1) |> binary_part(0, byte_size(text))
    :crypto.exor(text, key)
  end
end
