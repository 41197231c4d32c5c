// The package psp: units of work in three goroutines. Arguments: how (pgx, sql or client), the URL's part behind the driver, how many,
// how their names begin.
package main

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"psp.example/psp"
)

const (
	count  = "UPDATE counter SET value = value + 1"
	insert = "INSERT INTO unit (id, name) VALUES (nextval('unit_id'), $1)"
)

var (
	ctx     = context.Background()
	patient = psp.Options{Attempts: 200, LongestPause: 300 * time.Millisecond, RetryInterval: 300 * time.Millisecond}
)

type commit func(name string) error

func main() {
	url := "postgresql://" + os.Args[2] + "?application_name=retried"
	times, err := strconv.Atoi(os.Args[3])
	check(err)
	var all sync.WaitGroup
	for first := 0; first < 3; first++ {
		run := map[string]func(string) commit{"pgx": byPgx, "sql": bySQL, "client": byClient}[os.Args[1]](url)
		all.Add(1)
		go func(first int) {
			defer all.Done()
			for number := first; number < times; number += 3 {
				check(run(os.Args[4] + strconv.Itoa(number)))
			}
		}(first)
	}
	all.Wait()
}

func byPgx(url string) commit {
	pool, err := pgxpool.New(ctx, url)
	check(err)
	return func(name string) error {
		return psp.Run(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, count); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, insert, name)
			return err
		}, patient)
	}
}

func bySQL(url string) commit {
	db, err := sql.Open("pgx", url)
	check(err)
	return func(name string) error {
		return psp.RunSQL(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, count); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, insert, name)
			return err
		}, patient)
	}
}

// In either mode. What is committed is so when it is asked again.
func byClient(url string) commit {
	var client *psp.Client
	return func(name string) error {
		for client == nil { // sessions are ended all the time
			client, _ = psp.Connect(ctx, url, patient)
		}
		done, err := client.Run(ctx, func(connection *pgx.Conn) error {
			if _, err := connection.Exec(ctx, count); err != nil {
				return err
			}
			_, err := connection.Exec(ctx, insert, name)
			return err
		})
		if err != nil {
			return err
		}
		if again, err := client.CommitAgain(ctx, done.ID); err != nil || again != done {
			return fmt.Errorf("%v is %v when it is asked again: %w", done, again, err)
		}
		if outcome, err := client.Outcome(ctx, done.ID); err != nil || outcome != "committed" {
			return fmt.Errorf("%v is %s: %w", done, outcome, err)
		}
		return nil
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
