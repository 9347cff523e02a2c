package mockserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"unicode/utf8"
)

// maxBody is the largest body taken, in bytes: more than any worker could
// fetch, so that plans over the frame limit can be tried.
const maxBody = 32 << 20

// postBody takes any JSON and stores it under the id of the path.
func (s *Server) postBody(store func(id string, body json.RawMessage)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := readJSON(w, r)
		if !ok {
			return
		}
		store(r.PathValue("id"), body)
		writeJSON(w, http.StatusCreated, map[string]string{"id": r.PathValue("id")})
	}
}

// readJSON reads the body, or answers why it cannot.
func readJSON(w http.ResponseWriter, r *http.Request) (json.RawMessage, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		writeJSON(w, http.StatusRequestEntityTooLarge, errorBody("the body is over 32 MiB"))
		return nil, false
	case err != nil:
		writeJSON(w, http.StatusBadRequest, errorBody("the body ended early"))
		return nil, false
	}
	if body = bytes.Trim(body, " \t\r\n"); len(body) == 0 {
		writeJSON(w, http.StatusBadRequest, errorBody("the body is empty: send JSON"))
		return nil, false
	}
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		writeJSON(w, http.StatusBadRequest, errorBody("the body is not JSON: "+err.Error()))
		return nil, false
	}
	if !utf8.Valid(body) {
		// Go's decoder lets it pass, but a text frame must not hold it.
		writeJSON(w, http.StatusBadRequest, errorBody("the body is not UTF-8"))
		return nil, false
	}
	return body, true
}

func errorBody(message string) map[string]string { return map[string]string{"error": message} }

// fieldError is the shape in which Lightning names a bad field.
func fieldError(field, message string) map[string]map[string][]string {
	return map[string]map[string][]string{"errors": {field: {message}}}
}

// writeJSON answers with one line.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone
}
