// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"
	"errors"
	"testing"
	"time"
)

var (
	quick    = Options{FirstPause: time.Nanosecond, LongestPause: time.Nanosecond, Timeout: 50 * time.Millisecond}
	errLost  = errors.New("lost")
	someID   = "00112233-4455-6677-8899-aabbccddeeff"
	conflict = &Error{Code: "40001"}
)

// How often the work runs, and how often it is asked, if the first COMMIT ends so and asking gives this.
func tried(t *testing.T, end attempt, problem error, outcome string, refused error) (int, int, error) {
	t.Helper()
	runs, asked := 0, 0
	err := quick.run(context.Background(), func(current *attempt) error {
		if runs++; runs > 1 {
			return nil
		}
		*current = end
		return problem
	}, func(context.Context, string) (string, error) {
		asked++
		return outcome, refused
	})
	return runs, asked, err
}

func TestWhatIsRunAgain(t *testing.T) {
	atCommit := attempt{hasPsp: true, isCommitting: true, id: &someID}
	lost := attempt{hasPsp: true, isCommitting: true, isLost: true, id: &someID}
	for name, test := range map[string]struct {
		end     attempt
		problem error
		outcome string
		runs    int
		asked   int
		fails   bool
	}{
		"a conflict":                  {atCommit, conflict, "", 2, 0, false},
		"lost, and committed":         {lost, errLost, committed, 1, 1, false},
		"lost, and aborted":           {lost, errLost, "aborted", 2, 1, false},
		"08007, and committed":        {atCommit, &Error{Code: "08007"}, committed, 1, 1, false},
		"a violated constraint":       {atCommit, &Error{Code: "23505"}, committed, 1, 0, true},
		"an odd error, and committed": {atCommit, &Error{Code: "XX000"}, committed, 1, 1, false},
		"lost, and forgotten":         {lost, errLost, forgotten, 1, 1, true},
		"an odd error, and aborted":   {atCommit, &Error{Code: "XX000"}, "aborted", 1, 1, true},
		"lost before COMMIT":          {attempt{isLost: true}, errLost, "", 2, 0, false},
		"an error of the work":        {attempt{}, errLost, "", 1, 0, true},
		"lost, nothing written":       {attempt{hasPsp: true, isCommitting: true, isLost: true}, errLost, "", 2, 0, false},
		"lost, without psp":           {attempt{isCommitting: true, isLost: true}, errLost, "", 1, 0, true},
	} {
		runs, asked, err := tried(t, test.end, test.problem, test.outcome, nil)
		if runs != test.runs || asked != test.asked || (err != nil) != test.fails {
			t.Errorf("%s: run %d times, asked %d times, %v", name, runs, asked, err)
		}
	}
}

func TestAnOutcomeThatStaysUnknown(t *testing.T) {
	end := attempt{hasPsp: true, isCommitting: true, isLost: true, id: &someID}
	runs, _, err := tried(t, end, errLost, "", errLost)
	var unknown *OutcomeUnknown
	if runs != 1 || !errors.As(err, &unknown) || unknown.ID != someID || unknown.SQLState() != "08007" {
		t.Fatalf("%d, %v", runs, err)
	}
}

func TestItGivesUpWithTheLastError(t *testing.T) {
	options, runs := quick, 0
	options.Attempts = 3
	err := options.run(context.Background(), func(*attempt) error { runs++; return conflict }, nil)
	if runs != 3 || !errors.Is(err, error(conflict)) {
		t.Fatalf("%d, %v", runs, err)
	}
}
