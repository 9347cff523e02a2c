# The application on the stand-in for Phoenix, for a worker to talk to. `elixir test/server.exs`,
# with terms such as lease_ms=2000 behind it, prints the port and every message, and
# evaluates the lines that it reads until there are none:
#
#     RunQueue.enqueue(%{id: "a", plan: %{"id" => "a", "jobs" => []}})
Code.require_file("fake/load.exs", __DIR__)

alias WorkerServer.RunQueue

terms =
  for [k, v] <- Enum.map(System.argv(), &String.split(&1, "=")),
      do: {String.to_atom(k), String.to_integer(v)}

Application.put_env(:worker_server, :terms, terms)
endpoint = Application.fetch_env!(:worker_server, WorkerServer.Endpoint)
endpoint = Keyword.merge(endpoint, server: true, http: [port: 0])
Application.put_env(:worker_server, WorkerServer.Endpoint, endpoint)
{:ok, _} = WorkerServer.Application.start(:normal, [])

for line <- IO.stream(:stdio, :line) do
  {result, _} = Code.eval_string(line, [], __ENV__)
  IO.puts("= " <> inspect(result, limit: :infinity, printable_limit: :infinity))
end
