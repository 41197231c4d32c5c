// SPDX-License-Identifier: PostgreSQL
package psp

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// What psp.token() gives. An SP number of 0 is that of none: what counts is newest, once it is applied.
type token struct {
	cluster, history  string
	sp                int64
	watermark, newest int64
}

var tokenForm = regexp.MustCompile(`^psp1\.([0-9a-f]{8})\.([0-9a-f]{8}|-)\.([0-9]{1,9})\.([0-9]{1,18})\.([0-9]{1,18})$`)

func parseToken(text string) (token, bool) {
	parts := tokenForm.FindStringSubmatch(text)
	if parts == nil {
		return token{}, false
	}
	number := func(digits string) int64 {
		value, _ := strconv.ParseInt(digits, 10, 64) // the form allows what fits
		return value
	}
	return token{parts[1], parts[2], number(parts[3]), number(parts[4]), number(parts[5])}, true
}

func (t token) String() string {
	number := func(value int64) string { return strconv.FormatInt(value, 10) }
	return strings.Join([]string{"psp1", t.cluster, t.history, number(t.sp), number(t.watermark), number(t.newest)}, ".")
}

// A token whose wait is one for both.
func both(one, other token) token {
	if one.cluster != other.cluster {
		return other
	}
	older, newer := one, other
	if other.newest < one.newest || other.newest == one.newest && other.watermark < one.watermark {
		older, newer = other, one
	}
	if older.sp != newer.sp && newer.watermark < older.newest {
		newer.sp = 0 // at its semi-primary it may be seen without the other's
	}
	return newer
}

// Seen is what a program or a user has committed or seen: the newest token. Any goroutine may use it.
type Seen struct {
	mutex sync.Mutex
	has   bool
	token token
}

// Token is what another program, or a later call, gives to WithSeen. Empty: nothing has been seen.
func (s *Seen) Token() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.has {
		return ""
	}
	return s.token.String()
}

func (s *Seen) note(t token) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.has {
		t = both(s.token, t)
	}
	s.has, s.token = true, t
}

func (s *Seen) forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.has = false
}

// The token to wait for at that semi-primary. Empty: all was seen or committed there.
func (s *Seen) wantedAt(sp int64) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if !s.has || s.token.sp == sp && sp != 0 {
		return ""
	}
	return s.token.String()
}

type seenKey struct{}

// WithSeen gives a context in which transactions see all that the token stands for, and a Seen that has the newest token after each. What is
// no token counts as none.
func WithSeen(ctx context.Context, text string) (context.Context, *Seen) {
	seen := &Seen{}
	if found, isToken := parseToken(text); isToken {
		seen.note(found)
	}
	return context.WithValue(ctx, seenKey{}, seen), seen
}

func seenIn(ctx context.Context) *Seen {
	seen, _ := ctx.Value(seenKey{}).(*Seen)
	return seen
}
