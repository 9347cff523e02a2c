# With Mix, Phoenix is there. Without, as in
#
#     elixir -r test/test_helper.exs -r "test/*_test.exs" -e ""
#
# a stand-in takes its place, and the modules are compiled here.
unless Code.ensure_loaded?(Phoenix.Channel), do: Code.require_file("fake/load.exs", __DIR__)

ExUnit.start()
