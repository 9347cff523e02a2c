import Config

config :phoenix, :json_library, Jason

config :worker_server,
  # What workers sign their tokens with; to be read from the environment elsewhere.
  worker_secret: "mock-worker-secret"

config :worker_server, WorkerServer.Endpoint,
  adapter: Bandit.PhoenixAdapter,
  http: [ip: {127, 0, 0, 1}, port: 4000],
  server: true
