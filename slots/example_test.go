package slots_test

import (
	"fmt"

	"github.com/phxworker/phxworker/slots"
)

func ExampleParse() {
	groups, err := slots.Parse("fast_lane:1 manual,*:4")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range groups {
		fmt.Println(g.Name, g.Queues, g.Slots)
	}

	_, err = slots.Parse("*>manual:4")
	fmt.Println(err)
	// Output:
	// fast_lane [fast_lane] 1
	// manual>* [manual *] 4
	// slot group "*>manual:4": "*>manual" has a queue after "*"; put "*" last: nothing is left for a queue that comes after it
}

func ExampleCheck() {
	groups, warnings, err := slots.Check([]slots.Group{{Queues: []string{"fast_lane"}, Slots: 1}, {Queues: []string{"manual"}, Slots: 4}})
	fmt.Println(groups, err)
	fmt.Println(warnings[0])
	// Output:
	// [fast_lane:1 manual:4] <nil>
	// no slot group has "*": runs of queues that are not named will never be claimed by this worker
}

func ExampleNewPool() {
	pool := slots.NewPool(slots.Plain(2)[0])

	slot, ok := pool.Reserve() // before asking for a run
	fmt.Println(ok, pool.Counts())

	slot.Fill() // a run came
	fmt.Println(slot.Group(), pool.Counts())

	fmt.Println(slot.Free(), slot.Free()) // the run is over; the second changes nothing
	<-pool.Freed()                        // what the group's claim loop waits for
	fmt.Println(pool.Counts())
	// Output:
	// true {2 1 1 0}
	// manual>*:2 {2 1 0 1}
	// true false
	// {2 2 0 0}
}
