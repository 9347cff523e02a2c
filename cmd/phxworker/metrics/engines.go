package metrics

// engines is about what executes the runs.
var engines = []family{
	gauge("phxworker_engine_processes", "Processes of the engine, busy ones and spares, until they have exited.", func(now *snapshot) float64 {
		return float64(now.processes)
	}),
	gauge("phxworker_engines_stuck", "Calls of the engine that go on although their run is over.", func(now *snapshot) float64 {
		return float64(now.Delivery.StuckNow)
	}),
	counter("phxworker_engines_stuck_total", "Calls of the engine that did not end with their run.", func(now *snapshot) float64 {
		return float64(now.Delivery.Stuck)
	}),
	counter("phxworker_engine_panics_total", "Panics of the engine, each of which ended its run.", func(now *snapshot) float64 {
		return float64(now.Delivery.Panics)
	}),
}
