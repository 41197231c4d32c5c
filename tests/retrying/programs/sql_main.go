// database/sql: units of work. Arguments: the URL's part behind the driver, how many, how their names begin.
package main

import (
	"context"
	"database/sql"
	"log"
	"os"
	"strconv"

	_ "github.com/jackc/pgx/v5/stdlib"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("pgx", "postgresql://"+os.Args[1]+"?application_name=retried")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	times, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for number := 0; number < times; number++ {
		name := os.Args[3] + strconv.Itoa(number)
		err := RunSQL(ctx, db, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, "UPDATE counter SET value = value + 1"); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO unit (name) VALUES ($1)", name)
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
}
