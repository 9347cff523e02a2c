defmodule WorkerServer.Application do
  @moduledoc false
  use Application

  @impl true
  def start(_type, _args) do
    # PubSub comes first: a socket that has an id subscribes to it as it connects.
    # One for all: channels of a queue that has forgotten them are of no use, and
    # their workers join again by themselves.
    children = [
      {Phoenix.PubSub, name: WorkerServer.PubSub},
      {WorkerServer.RunQueue, Application.get_env(:worker_server, :terms, [])},
      WorkerServer.Endpoint
    ]

    Supervisor.start_link(children, strategy: :one_for_all, name: WorkerServer.Supervisor)
  end
end
