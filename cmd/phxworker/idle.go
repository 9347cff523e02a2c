package main

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/phxworker/phxworker"
)

// idleAfter is how long a worker must have had no run before it gives its
// memory back.
const idleAfter = 5 * time.Second

// releaseIdleMemory returns the memory of runs that are over to the system whenever the
// worker has come to rest. Go would do so itself, but over minutes and in part;
// a worker shares its machine with others and is idle for most of a day.
func releaseIdleMemory(ctx context.Context, worker *phxworker.Worker) {
	ticker := time.NewTicker(idleAfter)
	defer ticker.Stop()
	given, before := -1, 0 // what the start took is given back as well
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		running, ended := activity(worker.Stats())
		if running == 0 && ended == before && ended != given {
			debug.FreeOSMemory()
			given = ended
		}
		before = ended
	}
}

// activity returns how many runs are under way, and how many are over.
func activity(stats phxworker.Stats) (running, ended int) {
	for _, group := range stats.Groups {
		running += group.Running
	}
	for _, n := range stats.Ended {
		ended += n
	}
	return running, ended
}
