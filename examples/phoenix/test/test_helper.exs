# With Mix, Phoenix is there. Without, as in
#
#     elixir -r test/test_helper.exs -r "test/*_test.exs" -e ""
#
# a stand-in takes its place, and the modules are compiled here.
if Code.ensure_loaded?(Phoenix.Channel) do
  # What Phoenix tells is shown for a test that fails.
  ExUnit.configure(capture_log: true)
else
  Code.require_file("fake/load.exs", __DIR__)
  {:ok, _} = WorkerServer.Application.start(:normal, [])
end

# Each test starts a queue of its own, under the name of the application's.
:ok = Supervisor.terminate_child(WorkerServer.Supervisor, WorkerServer.RunQueue)

# A machine may be busy: what takes milliseconds is waited for much longer.
ExUnit.start(assert_receive_timeout: 10_000)
