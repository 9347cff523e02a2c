package claim

// tired is how often the same run may come back to a group. Beyond that, the group
// is given only what it does not want: to ask again at once would go round in circles with
// the server.
const tired = 5

// mostSeen bounds what is remembered.
const mostSeen = 1000

// sightings counts how often each run came. It remembers the latest ones.
type sightings struct {
	times map[string]int
	order []string // oldest first
}

// see counts a run, and returns how often it has come.
func (s *sightings) see(id string) int {
	if s.times == nil {
		s.times = make(map[string]int)
	}
	if s.times[id] == 0 {
		s.order = append(s.order, id)
		if len(s.order) > mostSeen {
			delete(s.times, s.order[0])
			s.order = s.order[1:]
		}
	}
	s.times[id]++
	return s.times[id]
}
