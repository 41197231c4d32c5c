// pgx: adds one to a counter again and again. Arguments: the URL's part behind the driver, how often.
package main

import (
	"context"
	"log"
	"os"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgresql://"+os.Args[1]+"?application_name=retried")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	times, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for i := 0; i < times; i++ {
		err := Run(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE counter SET value = value + 1")
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}
