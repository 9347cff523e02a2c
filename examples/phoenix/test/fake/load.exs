# The modules with stand-ins for Phoenix and Jason, for where these cannot be installed, and
# the configuration of the tests. The order matters: what is used comes before what uses it.
fakes = ~w(test/fake/jason.ex test/fake/phoenix.ex test/fake/server.ex)

lib = ~w(run run_queue extensions worker_channel run_channel worker_socket endpoint application)

root = Path.join(__DIR__, "../..")

for file <- fakes ++ Enum.map(lib, &"lib/#{&1}.ex") do
  Code.require_file(file, root)
end

root
|> Path.join("config/config.exs")
|> Config.Reader.read!(env: :test)
|> Application.put_all_env()
