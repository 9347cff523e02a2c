import Config

config :phoenix,
  json_library: Jason,
  # Phoenix logs what a worker connects, joins and pushes with: its own token, and those
  # of its runs.
  filter_parameters: ["password", "token"]

# At debug, Phoenix logs every event with its payload, and so what the runs come to.
config :logger, level: :info

config :worker_server,
  # What workers sign their tokens with; to be read from the environment elsewhere.
  worker_secret: "mock-worker-secret"

config :worker_server, WorkerServer.Endpoint,
  adapter: Bandit.PhoenixAdapter,
  pubsub_server: WorkerServer.PubSub,
  http: [ip: {127, 0, 0, 1}, port: 4000],
  # The tests need the endpoint, but nobody connects to it.
  server: config_env() != :test
