package slots

// JoinPayload is what a worker tells the server about its slots when it joins
// the queue's topic. Lightning shows Capacity as the worker's presence and takes
// Queues as information:
//
//	{"capacity":5,"queues":{"fast_lane":1,"manual>*":4}}
type JoinPayload struct {
	// Capacity is how many runs the worker may hold at once, in all groups.
	Capacity int `json:"capacity"`
	// Queues is the number of slots by the name of the group. Groups of the
	// same name are added up.
	Queues map[string]int `json:"queues"`
}

// NewJoinPayload returns the payload for a worker with these groups.
func NewJoinPayload(groups []Group) JoinPayload {
	payload := JoinPayload{Queues: make(map[string]int, len(groups))}
	for _, g := range groups {
		payload.Capacity += g.Slots
		payload.Queues[g.Name] += g.Slots
	}
	return payload
}
