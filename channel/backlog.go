package channel

const (
	// maxWaiting is how many bytes of messages may wait for the readers of all topics
	// of a connection together: with a hundred topics, the buffers alone have room for
	// hundreds of gigabytes.
	maxWaiting = 16 << 20
	// light is the size of messages that there is room for in any case, so that
	// what is usual costs no look at the other topics.
	light = 4 << 10
)

// backlog is the sizes of the messages that were put into a channel, oldest first, those that
// still wait there and perhaps some before them. It is used by who puts them in only.
type backlog []int

// add notes a message that was put into the channel, which has room for so many.
func (b *backlog) add(size, room int) {
	if len(*b) >= 2*room {
		*b = append((*b)[:0], b.last(room)...)
	}
	*b = append(*b, size)
}

func (b *backlog) last(n int) []int { return (*b)[max(len(*b)-n, 0):] }

// bytes returns the size of the messages that still wait: the last n.
func (b *backlog) bytes(n int) (sum int) {
	for _, size := range b.last(n) {
		sum += size
	}
	return sum
}

// hasRoom reports whether a message of that size may wait beside those that do. One that is
// alone always may.
func (c *conn) hasRoom(size int) bool {
	if size <= light {
		return true
	}
	waiting := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.joins {
		waiting += j.topic.backlog.bytes(len(j.topic.messages))
	}
	return waiting == 0 || waiting+size <= maxWaiting
}
