// pgx: units of work. Arguments: the URL's part behind the driver, how many, how their names begin.
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
	for number := 0; number < times; number++ {
		name := os.Args[3] + strconv.Itoa(number)
		err := Run(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "UPDATE counter SET value = value + 1"); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO unit (name) VALUES ($1)", name)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}
