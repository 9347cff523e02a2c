# The modules with stand-ins for Phoenix and Jason, for where these cannot be installed.
# The order matters: what is used comes before what uses it.
fakes = ~w(test/fake/jason.ex test/fake/phoenix.ex test/fake/server.ex)
lib = ~w(run run_queue extensions worker_channel run_channel worker_socket)

for file <- fakes ++ Enum.map(lib, &"lib/#{&1}.ex") do
  Code.require_file(file, Path.join(__DIR__, "../.."))
end

Application.put_env(:worker_server, :worker_secret, "mock-worker-secret")
