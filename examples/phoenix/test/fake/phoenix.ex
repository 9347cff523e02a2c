# As much of Phoenix as the application needs, for tests where it cannot be installed: the
# callbacks, and what becomes of their results. Each channel is a process; what it
# would write goes to the transport as {:frame, join_ref, ref, topic, event, payload}.

defmodule Phoenix.PubSub do
  def child_spec(name: name) do
    %{id: __MODULE__, start: {Agent, :start_link, [fn -> nil end, [name: name]]}}
  end
end

defmodule Phoenix.Endpoint do
  defmacro __using__(otp_app: app) do
    quote do
      import Phoenix.Endpoint, only: [socket: 3]

      def config(key), do: Application.fetch_env!(unquote(app), __MODULE__)[key]

      def child_spec(_opts) do
        %{id: __MODULE__, start: {Fake.Server, :start_link, [__MODULE__]}}
      end
    end
  end

  # One is enough.
  defmacro socket(path, handler, _opts) do
    quote do: def(__socket__, do: {unquote(path), unquote(handler)})
  end
end

defmodule Phoenix.Logger do
  def filter_values(params) do
    hidden = Application.get_env(:phoenix, :filter_parameters, [])

    Map.new(params, fn {key, value} ->
      {key, if(String.contains?(key, hidden), do: "[FILTERED]", else: value)}
    end)
  end
end

defmodule Phoenix.Socket do
  defstruct [:transport_pid, :channel_pid, :topic, :join_ref, :ref, assigns: %{}]

  @callback connect(map, struct, map) :: {:ok, struct} | :error
  @callback id(struct) :: String.t() | nil

  defmacro __using__(_opts) do
    quote do
      @behaviour Phoenix.Socket
      @before_compile Phoenix.Socket
      import Phoenix.Socket, only: [channel: 2, assign: 2, assign: 3]
      Module.register_attribute(__MODULE__, :channels, accumulate: true)
    end
  end

  defmacro __before_compile__(_env) do
    quote do
      def __channels__, do: @channels
    end
  end

  defmacro channel(pattern, module) do
    quote do: @channels({unquote(pattern), unquote(module)})
  end

  def assign(socket, key, value), do: assign(socket, [{key, value}])
  def assign(socket, values), do: %{socket | assigns: Enum.into(values, socket.assigns)}
end

defmodule Phoenix.Channel do
  @callback join(String.t(), term, struct) :: term
  @callback handle_in(String.t(), term, struct) :: term
  @callback handle_info(term, struct) :: term

  defmacro __using__(_opts) do
    quote do
      @behaviour Phoenix.Channel
      import Phoenix.Channel
      import Phoenix.Socket, only: [assign: 2, assign: 3]
    end
  end

  def socket_ref(socket), do: {socket.transport_pid, socket.topic, socket.ref, socket.join_ref}

  def reply({transport, topic, ref, join_ref}, {status, payload}) do
    send(transport, {:frame, join_ref, ref, topic, "phx_reply", {status, payload}})
    :ok
  end

  def push(socket, event, payload) do
    frame = {:frame, socket.join_ref, nil, socket.topic, event, payload}
    send(socket.transport_pid, frame)
    :ok
  end

  @doc "Starts the channel's process, which joins: it lives on if that succeeds."
  def start(module, socket, payload) do
    spawn(fn ->
      case module.join(socket.topic, payload, socket) do
        {:ok, reply, socket} ->
          reply(socket_ref(socket), {:ok, reply})
          loop(module, %{socket | ref: nil})

        {:error, reason} ->
          reply(socket_ref(socket), {:error, reason})
      end
    end)
  end

  defp loop(module, socket) do
    receive do
      {:in, ref, "phx_leave", _payload} ->
        reply(socket_ref(%{socket | ref: ref}), {:ok, %{}})
        close(socket)

      {:in, ref, event, payload} ->
        run(module, %{socket | ref: ref}, fn s -> module.handle_in(event, payload, s) end)

      message ->
        run(module, socket, fn s -> module.handle_info(message, s) end)
    end
  end

  defp run(module, socket, callback) do
    case attempt(callback, socket) do
      {:noreply, socket} ->
        loop(module, socket)

      {:reply, reply, socket} ->
        reply(socket_ref(socket), reply)
        loop(module, socket)

      {:stop, {:shutdown, _} = reason, reply, socket} ->
        reply(socket_ref(socket), reply)
        close(socket)
        exit(reason)

      {:stop, {:shutdown, _} = reason, socket} ->
        close(socket)
        exit(reason)

      {:crash, _error} ->
        frame = {:frame, socket.join_ref, socket.join_ref, socket.topic, "phx_error", %{}}
        send(socket.transport_pid, frame)
        exit(:crashed)
    end
  end

  # The causes are the ones that an event without a clause has.
  defp attempt(callback, socket) do
    callback.(socket)
  rescue
    error in [FunctionClauseError, MatchError] -> {:crash, error}
  end

  defp close(socket) do
    frame = {:frame, socket.join_ref, socket.join_ref, socket.topic, "phx_close", %{}}
    send(socket.transport_pid, frame)
  end
end

defmodule Phoenix.ChannelTest do
  alias Phoenix.Channel

  # As Phoenix has it, a macro that wants an endpoint.
  defmacro socket(_module, _id, assigns) do
    quote do
      WorkerServer.Endpoint = @endpoint
      %Phoenix.Socket{transport_pid: self(), assigns: unquote(assigns)}
    end
  end

  # Tests that have a join of their own must leave out this one.
  def join(_socket, _channel, _topic), do: raise("the stand-in has no join")

  def subscribe_and_join(socket, module, topic, payload) do
    ref = make_ref()
    socket = %{socket | topic: topic, join_ref: ref, ref: ref}
    pid = Channel.start(module, socket, payload)

    receive do
      {:frame, ^ref, ^ref, _, "phx_reply", {:ok, reply}} ->
        {:ok, reply, %{socket | channel_pid: pid}}

      {:frame, ^ref, ^ref, _, "phx_reply", {:error, reply}} ->
        {:error, reply}
    end
  end

  def push(socket, event, payload) do
    ref = make_ref()
    send(socket.channel_pid, {:in, ref, event, payload})
    ref
  end

  defmacro assert_reply(ref, status, payload) do
    quote do
      ref = unquote(ref)
      assert_receive {:frame, _, ^ref, _, "phx_reply", {unquote(status), unquote(payload)}}
    end
  end

  defmacro refute_reply(ref, status, payload, timeout) do
    quote do
      ref = unquote(ref)

      refute_receive {:frame, _, ^ref, _, "phx_reply", {unquote(status), unquote(payload)}},
                     unquote(timeout)
    end
  end

  defmacro assert_push(event, payload) do
    quote do: assert_receive({:frame, _, nil, _, unquote(event), unquote(payload)})
  end

  defmacro refute_push(event, payload) do
    quote do: refute_receive({:frame, _, nil, _, unquote(event), unquote(payload)})
  end
end
