// SPDX-License-Identifier: PostgreSQL
package psp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

func seenAt(sp, watermark, newest int64) token {
	return token{"0a1b2c3d", "4e5f6071", sp, watermark, newest}
}

func TestOneWaitDoesForTwoTokens(t *testing.T) {
	for _, test := range []struct{ one, other, waitedFor token }{
		{seenAt(1, 5, 7), seenAt(1, 6, 8), seenAt(1, 6, 8)},
		{seenAt(1, 6, 8), seenAt(1, 5, 7), seenAt(1, 6, 8)}, // two goroutines, in another order
		{seenAt(1, 5, 7), seenAt(2, 7, 9), seenAt(2, 7, 9)}, // the other one has applied it
		{seenAt(1, 5, 7), seenAt(2, 6, 9), seenAt(0, 6, 9)}, // at 2 the other's 7 may be missing
		{seenAt(2, 6, 9), seenAt(0, 5, 7), seenAt(0, 6, 9)},
	} {
		if found := both(test.one, test.other); found != test.waitedFor {
			t.Errorf("%v, %v: %v", test.one, test.other, found)
		}
	}
	other := seenAt(1, 1, 2)
	other.cluster = "ffffffff"
	if both(seenAt(1, 5, 7), other) != other {
		t.Error("another cluster does not begin again")
	}
}

func TestTokensAreReadAndWritten(t *testing.T) {
	for _, text := range []string{"psp1.3f0c9a41.b7e2d105.1.4711.4713", "psp1.3f0c9a41.-.0.0.0"} {
		if found, isToken := parseToken(text); !isToken || found.String() != text {
			t.Errorf("%s is read as %v", text, found)
		}
	}
	for _, text := range []string{"", "psp1.wrong", "psp1.3f0c9a41.-.1.4711.9999999999999999999", "psp1.3f0c9a41.-.1.2.3; x"} {
		if _, isToken := parseToken(text); isToken {
			t.Errorf("%q is taken for a token", text)
		}
	}
}

// What is asked where, and what is answered; of the first place nothing after it is gone.
type played struct {
	asked  []string
	gone   map[int]bool
	failed map[string]error
}

func (p *played) ask(_ context.Context, place int, query string, arguments ...any) (string, error) {
	word := strings.SplitN(strings.TrimPrefix(query, "SELECT psp."), "(", 2)[0]
	p.asked = append(p.asked, string(rune('0'+place))+" "+word)
	if p.gone[place] {
		return "", errLost
	}
	if err := p.failed[word]; err != nil {
		return "", err
	}
	switch query {
	case findToken:
		return seenAt(int64(place)+1, 5+2*int64(place), 7+int64(place)).String(), nil
	case findOutcome:
		return committed, nil
	}
	return "", nil
}

func (p *played) commit(t *testing.T, at *places, end error) error {
	t.Helper()
	p.asked = nil
	return quick.runAt(context.Background(), at, p.ask, func(place int, tried *attempt) error {
		tried.hasPsp, tried.isCommitting, tried.id = true, true, &someID
		if p.gone[place] {
			tried.isCommitting, tried.isLost = false, true
			return errLost
		}
		tried.isLost = errors.Is(end, errLost)
		return end
	})
}

func (p *played) expect(t *testing.T, words ...string) {
	t.Helper()
	if !reflect.DeepEqual(p.asked, words) {
		t.Errorf("asked %v instead of %v", p.asked, words)
	}
}

func TestTheNextSemiPrimaryHasWhatWasCommitted(t *testing.T) {
	p, at := &played{gone: map[int]bool{}}, newPlaces(2)
	if err := p.commit(t, at, nil); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "0 token")
	p.gone[0] = true
	if err := p.commit(t, at, nil); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "1 wait_for", "1 token")
	if err := p.commit(t, at, nil); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "1 token") // its own commits are there
}

func TestACommitWhoseAnswerIsLostIsCarried(t *testing.T) {
	p, at := &played{}, newPlaces(2)
	if err := p.commit(t, at, errLost); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "1 outcome", "1 request_done", "1 token")
	if err := p.commit(t, at, nil); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "1 wait_for", "1 token") // the fence is seen there without what it covers
}

func TestAWaitInVainIsNotRepeated(t *testing.T) {
	p, at := &played{failed: map[string]error{"wait_for": &Error{Code: "57014"}}}, newPlaces(2)
	at.seen.note(seenAt(3, 5, 7))
	if err := p.commit(t, at, nil); sqlstate(err) != "57014" {
		t.Fatal(err)
	}
	p.expect(t, "0 wait_for")
	p.failed["wait_for"] = &Error{Code: "55000"} // of what was lost for good
	if err := p.commit(t, at, nil); err != nil {
		t.Fatal(err)
	}
	p.expect(t, "0 wait_for", "0 token")
}

func TestTheNearestIsTriedAgain(t *testing.T) {
	at, now := newPlaces(3), time.Now()
	at.now = func() time.Time { return now }
	at.leave(0)
	at.leave(0) // of another goroutine
	if at.current() != 1 {
		t.Error(at.current())
	}
	now = now.Add(backAfter)
	if at.current() != 0 {
		t.Error(at.current())
	}
}

func TestAUsersTokenGoesAndComes(t *testing.T) {
	service := ReadYourWrites(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seenIn(r.Context()).note(seenAt(1, 5, 7))
		w.WriteHeader(http.StatusCreated)
	}))
	answer := httptest.NewRecorder()
	service.ServeHTTP(answer, call("", ""))
	cookies := answer.Result().Cookies()
	if len(cookies) != 1 || cookies[0].Value != seenAt(1, 5, 7).String() || answer.Header().Get("Psp-Token") != cookies[0].Value {
		t.Fatal(answer.Header())
	}
	var came string
	service = ReadYourWrites(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		came = seenIn(r.Context()).Token()
	}))
	next := call("", "")
	next.AddCookie(cookies[0])
	answer = httptest.NewRecorder()
	service.ServeHTTP(answer, next)
	if came != cookies[0].Value || len(answer.Result().Cookies()) != 0 {
		t.Error(came, answer.Header())
	}
}
