defmodule WorkerServer.MixProject do
  use Mix.Project

  def project do
    [
      app: :worker_server,
      version: "0.1.0",
      elixir: "~> 1.14",
      deps: deps()
    ]
  end

  def application do
    [mod: {WorkerServer.Application, []}, extra_applications: [:logger, :crypto]]
  end

  defp deps do
    [
      {:phoenix, "~> 1.7.0"},
      {:jason, "~> 1.4"},
      # Phoenix brings no HTTP server of its own. What Bandit needs is named as well: from
      # Bandit 1.12 and HPAX 1.0.4 on, these do not compile with Elixir 1.14.
      {:bandit, "~> 1.10.0"},
      {:hpax, "~> 1.0 and < 1.0.4"}
    ]
  end
end
