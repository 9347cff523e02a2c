package mockserver

import (
	"encoding/json"
	"net/http"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// postCancel cancels a run: 200 if that ended it, 202 if its worker was told, or
// will be.
func (s *Server) postCancel(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Message string `json:"message"`
	}
	if r.ContentLength != 0 {
		body, ok := readJSON(w, r)
		if !ok {
			return
		}
		if json.Unmarshal(body, &asked) != nil {
			writeJSON(w, http.StatusUnprocessableEntity, fieldError("message", "must be a string"))
			return
		}
	}
	id := r.PathValue("id")
	if err := s.Cancel(id, asked.Message); err != nil {
		refuseRun(w, err)
		return
	}
	status, state := http.StatusAccepted, lightning.Cancelled // forgotten already
	if record, ok := s.Inspect(id); ok {
		state = record.State
	}
	if state.Final() {
		status = http.StatusOK
	}
	writeJSON(w, status, map[string]string{"id": id, "state": string(state)})
}

func (s *Server) postNotify(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	if err := s.Notify(r.PathValue("id"), body); err != nil {
		refuseRun(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("id")})
}

func (s *Server) postDrain(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"workers": s.DrainWorkers()})
}

func (s *Server) getWorkers(w http.ResponseWriter, _ *http.Request) {
	workers := s.Workers()
	if workers == nil {
		workers = []WorkerRecord{}
	}
	writeJSON(w, http.StatusOK, map[string][]WorkerRecord{"workers": workers})
}
