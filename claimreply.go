package phxworker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
)

const (
	// maxClaimed is how many runs are taken of one reply, if no more were asked for: what is
	// too much waits for a slot here, which nobody else can give it.
	maxClaimed = 1000
	// maxRunID and maxToken are in bytes, and many times what Lightning has. Both are held
	// for as long as the run, and the id is on each line about it.
	maxRunID = 1000
	maxToken = 64 << 10
)

// runs reads the reply to a claim. One run that cannot be read must not cost
// the others, which the server has given away as well.
func (q *queue) runs(reply channel.Reply, join *channel.Join, demand int) ([]claim.Run, error) {
	body := struct {
		Runs runList `json:"runs"`
	}{runList{most: max(maxClaimed, demand)}}
	if err := reply.Decode(&body); err != nil {
		return nil, err
	}
	runs := make([]claim.Run, 0, len(body.Runs.read))
	for _, run := range body.Runs.read {
		runs = append(runs, q.asAgreed(run.Run, run.data, join))
	}
	if n := body.Runs.unreadable; n > 0 {
		q.log.Error("the server gave a run that cannot be read; it is lost", "runs", n, "error", body.Runs.why)
	}
	if body.Runs.more {
		q.log.Error("the server gave many more runs than were asked for; those after the first are lost", "demand", demand, "first", body.Runs.most)
	}
	return runs, nil
}

// runList is the runs of a reply. It reads them one by one, for a reply may have
// millions of something else.
type runList struct {
	most int

	read       []runData
	more       bool // than the most
	unreadable int
	why        error // the first of them is
}

type runData struct {
	claim.Run

	data json.RawMessage
}

// UnmarshalJSON reads an array, or null.
func (l *runList) UnmarshalJSON(data []byte) error {
	*l = runList{most: l.most} // a second one in the same reply counts alone
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the runs are no array")
	}
	for n := 0; decoder.More(); n++ {
		if l.more = n == l.most; l.more {
			return nil
		}
		var run runData
		if err := decoder.Decode(&run.data); err != nil {
			return err
		}
		if err := run.parse(); err != nil {
			l.unreadable++
			if l.why == nil {
				l.why = err
			}
			continue
		}
		l.read = append(l.read, run)
	}
	return nil
}

func (r *runData) parse() error {
	if err := json.Unmarshal(r.data, &r.Run); err != nil {
		return err
	}
	if len(r.ID) > maxRunID || len(r.Token) > maxToken {
		return fmt.Errorf("its id has %d bytes, and its token %d; %d and %d are the most that are taken", len(r.ID), len(r.Token), maxRunID, maxToken)
	}
	return nil
}
