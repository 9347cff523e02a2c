defmodule WorkerServer.Endpoint do
  @moduledoc false
  use Phoenix.Endpoint, otp_app: :worker_server

  # Workers connect to /worker/websocket. A frame over the limit costs the whole
  # connection, so it must hold the largest dataclip.
  socket("/worker", WorkerServer.WorkerSocket,
    websocket: [compress: true, max_frame_size: 11_000_000],
    longpoll: false
  )
end
