package command

import "time"

const memoryInterval = 50 * time.Millisecond

// watchMemory watches by how much the memory of the process and its descendants
// grows from now on.
func watchMemory(p *process, limitMB int) *watch {
	if limitMB <= 0 {
		return &watch{}
	}
	group := newGroupMemory(p.cmd.Process.Pid, p.tmp)
	limit := group.resident() + int64(limitMB)<<20
	return newWatch(p, memoryInterval, func() bool { return group.resident() > limit && group.proportional() > limit })
}
