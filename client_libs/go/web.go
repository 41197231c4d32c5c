// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Answer is what a service answers, and what is stored with its work.
type Answer struct {
	Status      int    `json:"status"`
	Body        string `json:"body"`
	ContentType string `json:"content_type"` // empty: application/json
}

// Serve works in the transaction that stores its answer. The body of the request can be read.
type Serve func(tx pgx.Tx, request *http.Request) (Answer, error)

// Idempotency is how Idempotent serves. The zero value will do where clients' keys never meet.
type Idempotency struct {
	Caller  func(*http.Request) string // tells users apart, whose equal keys must not meet
	OfRole  string                     // Request.OfRole
	Wait    time.Duration              // for another attempt, then 409; 1 s
	Options Options
}

const (
	keyHeader   = "Idempotency-Key"
	keyBytesMax = 1000
	bodyMax     = 16 << 20
)

// Idempotent serves each call with the header Idempotency-Key once, after draft-ietf-httpapi-idempotency-key-header: no key, 400; the key of another
// call, 422; the first one still runs, 409; otherwise the stored answer. Other errors of `serve` and of the database are 500.
func Idempotent(pool Pool, serve Serve, how Idempotency) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
		if err != nil {
			problem(http.StatusBadRequest, "The body cannot be read").write(w)
			return
		}
		request, refusal := how.requestOf(r, body)
		if refusal != nil {
			refusal.write(w)
			return
		}
		how.answer(r.Context(), pool, request, func(tx pgx.Tx) (Answer, error) {
			again := r.Clone(r.Context())
			again.Body = io.NopCloser(bytes.NewReader(body))
			return serve(tx, again)
		}).write(w)
	})
}

const (
	tokenCookie = "psp_token"
	tokenHeader = "Psp-Token"
	tokenAge    = time.Minute // longer than semi-primaries lag
)

// ReadYourWrites lets the users of a service find their own writes, and what they have seen, when their next call is served at another semi-primary:
// the newest token is kept in the cookie psp_token and comes with the header Psp-Token. What is run with the request's context waits for it,
// and renews it. A token that was invented is waited for once.
func ReadYourWrites(service http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, seen := WithSeen(r.Context(), r.Header.Get(tokenHeader))
		if cookie, err := r.Cookie(tokenCookie); err == nil {
			if found, isToken := parseToken(cookie.Value); isToken {
				seen.note(found)
			}
		}
		service.ServeHTTP(&tokenWriter{ResponseWriter: w, seen: seen, before: seen.Token()}, r.WithContext(ctx))
	})
}

// Adds the token when the answer begins.
type tokenWriter struct {
	http.ResponseWriter
	seen     *Seen
	before   string
	hasBegun bool
}

func (w *tokenWriter) WriteHeader(status int) {
	if text := w.seen.Token(); !w.hasBegun && text != "" && text != w.before {
		w.Header().Set(tokenHeader, text)
		http.SetCookie(w, &http.Cookie{
			Name: tokenCookie, Value: text, Path: "/", MaxAge: int(tokenAge.Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode,
		})
	}
	w.hasBegun = true
	w.ResponseWriter.WriteHeader(status)
}

func (w *tokenWriter) Write(bytes []byte) (int, error) {
	if !w.hasBegun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(bytes)
}

// Unwrap is for http.ResponseController.
func (w *tokenWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (how Idempotency) requestOf(r *http.Request, body []byte) (Request, *Answer) {
	key := strings.Trim(strings.TrimSpace(r.Header.Get(keyHeader)), `"`)
	if key == "" {
		return Request{}, problem(http.StatusBadRequest, "The header Idempotency-Key is missing")
	}
	if how.Caller != nil {
		both, _ := json.Marshal([]string{how.Caller(r), key}) // strings always can be
		key = string(both)
	}
	if len(key) > keyBytesMax {
		return Request{}, problem(http.StatusBadRequest, "The header Idempotency-Key is too long")
	}
	digest := sha256.Sum256(body)
	wait := positive(how.Wait, time.Second)
	payload := r.Method + " " + r.URL.Path + " " + hex.EncodeToString(digest[:])
	return Request{Key: key, Payload: payload, OfRole: how.OfRole, Wait: &wait}, nil
}

func (how Idempotency) answer(ctx context.Context, pool Pool, request Request, work func(pgx.Tx) (Answer, error)) *Answer {
	found, err := RunRequest(ctx, pool, request, work, how.Options)
	switch {
	case err == nil:
		return &found
	case sqlstate(err) == "PS422":
		return problem(http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request")
	case sqlstate(err) == "55P03":
		return problem(http.StatusConflict, "A request with this Idempotency-Key is being served")
	default:
		return problem(http.StatusInternalServerError, http.StatusText(http.StatusInternalServerError))
	}
}

func problem(status int, title string) *Answer {
	body, _ := json.Marshal(map[string]any{"title": title, "status": status}) // nothing in it can fail
	return &Answer{Status: status, Body: string(body), ContentType: "application/problem+json"}
}

func (a *Answer) write(w http.ResponseWriter) {
	contentType := a.ContentType
	if contentType == "" {
		contentType = "application/json"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body) // who has gone asks again
}
