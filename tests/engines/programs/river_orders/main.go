// An application with a job queue. Arguments: URL, command, its arguments.
//
// schema: makes the engine's tables.
// defer FIRST END: orders FIRST to END - 1.
// work [PAUSE_S]: serves orders until it is ended.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

type order struct {
	Number int `json:"number"`
}

func (order) Kind() string { return "order" }

type payer struct {
	river.WorkerDefaults[order]
	pool  *pgxpool.Pool
	pause time.Duration
}

// Work may run twice for a job, so its rows have a key that tells.
func (p *payer) Work(ctx context.Context, job *river.Job[order]) error {
	fmt.Printf("pays %d\n", job.Args.Number)
	select {
	case <-time.After(p.pause):
	case <-ctx.Done():
		return ctx.Err()
	}
	return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
		done, err := tx.Exec(ctx, "INSERT INTO unit (name) VALUES ($1) ON CONFLICT DO NOTHING",
			fmt.Sprintf("order %d", job.Args.Number))
		if err == nil && done.RowsAffected() == 1 {
			_, err = tx.Exec(ctx, "UPDATE counter SET value = value + 1")
		}
		return err
	})
}

type soon struct{}

// NextRetry of a job that has failed, or lost.
func (soon) NextRetry(*rivertype.JobRow) time.Time { return time.Now().Add(time.Second) }

func main() {
	ctx := context.Background()
	command, rest := os.Args[2], numbers(os.Args[3:])
	pool, err := pgxpool.New(ctx, os.Args[1])
	check(err)
	if command == "schema" {
		check(makeTables(ctx, pool))
		return
	}
	workers := river.NewWorkers()
	config := &river.Config{Workers: workers, MaxAttempts: 100, RetryPolicy: soon{}}
	river.AddWorker(workers, &payer{pool: pool, pause: pauseOf(rest)})
	if command == "work" {
		config.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}}
		config.FetchPollInterval = 500 * time.Millisecond // a notification reaches one server only
		config.JobTimeout = 10 * time.Second
		config.RescueStuckJobsAfter = 15 * time.Second // those of a dead worker, by the leader
	}
	client, err := river.NewClient(riverpgxv5.New(pool), config)
	check(err)
	if command == "work" {
		check(client.Start(ctx))
		select {}
	}
	for number := rest[0]; number < rest[1]; number++ {
		_, err := client.Insert(ctx, order{number}, nil)
		check(err)
	}
}

// The leader is the same at all semi-primaries only if its table is.
func makeTables(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "ALTER TABLE river_leader SET LOGGED")
	return err
}

func pauseOf(rest []int) time.Duration {
	if len(rest) != 1 {
		return 0
	}
	return time.Duration(rest[0]) * time.Second
}

func numbers(words []string) []int {
	result := make([]int, len(words))
	for i, word := range words {
		number, err := strconv.Atoi(word)
		check(err)
		result[i] = number
	}
	return result
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
