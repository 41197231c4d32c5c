// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func call(key, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/pay?of=no-use", strings.NewReader(body))
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

func TestKeysOfCalls(t *testing.T) {
	bare, refusal := Idempotency{}.requestOf(call("one", ""), []byte("body"))
	if refusal != nil || bare.Key != "one" || bare.Wait == nil || bare.Wait.Seconds() != 1 {
		t.Fatalf("%+v, %+v", bare, refusal)
	}
	quoted, _ := Idempotency{}.requestOf(call(` "one" `, ""), []byte("body"))
	if quoted.Key != bare.Key || quoted.Payload != bare.Payload {
		t.Errorf("a quoted key is another one: %+v", quoted)
	}
	other, _ := Idempotency{}.requestOf(call("one", ""), []byte("other body"))
	if other.Payload == bare.Payload {
		t.Error("two bodies are one payload")
	}
	of := func(name string) Request {
		request, _ := Idempotency{Caller: func(*http.Request) string { return name }}.requestOf(call("one", ""), nil)
		return request
	}
	if of("alice").Key == of("bob").Key {
		t.Error("keys of two callers meet")
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	for _, key := range []string{"", `""`, strings.Repeat("x", 1001)} {
		answer := httptest.NewRecorder()
		Idempotent(nil, nil, Idempotency{}).ServeHTTP(answer, call(key, "body"))
		if answer.Code != http.StatusBadRequest || answer.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("key of %d bytes: %d %s", len(key), answer.Code, answer.Body)
		}
	}
}
