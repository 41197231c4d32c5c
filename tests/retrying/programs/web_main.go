// A service with the Idempotency-Key header at each of two semi-primaries. Arguments: the URLs' parts behind the driver.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	"psp.example/psp"
)

const paid = `{"paid":true}`

var patient = psp.Options{Attempts: 200, LongestPause: 300 * time.Millisecond}

func add(tx pgx.Tx, name string) error {
	if _, err := tx.Exec(context.Background(), "UPDATE counter SET value = value + 1"); err != nil {
		return err
	}
	_, err := tx.Exec(context.Background(), "INSERT INTO unit (name) VALUES ($1)", name)
	return err
}

func pay(tx pgx.Tx, r *http.Request) (psp.Answer, error) {
	var order struct{ Name string }
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		return psp.Answer{}, err
	}
	return psp.Answer{Status: http.StatusCreated, Body: paid}, add(tx, order.Name)
}

func post(server *httptest.Server, key, name string) (int, string) {
	body, _ := json.Marshal(map[string]string{"name": name})
	request, err := http.NewRequest(http.MethodPost, server.URL+"/pay", strings.NewReader(string(body)))
	check(err)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := http.DefaultClient.Do(request)
	check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(err)
	return answer.StatusCode, string(text)
}

func expect(server *httptest.Server, key, name string, status int) {
	found, text := post(server, key, name)
	if found != status || status == http.StatusCreated && text != paid {
		log.Fatalf("key %q: %d %s instead of %d", key, found, text, status)
	}
}

func main() {
	ctx := context.Background()
	var pools []*pgxpool.Pool
	var servers []*httptest.Server
	for _, url := range os.Args[1:] {
		pool, err := pgxpool.New(ctx, "postgresql://"+url)
		check(err)
		pools = append(pools, pool)
		servers = append(servers, httptest.NewServer(psp.Idempotent(pool, pay, psp.Idempotency{Options: patient})))
	}
	expect(servers[0], "", "no key", http.StatusBadRequest)
	expect(servers[0], `"go order 1"`, "once", http.StatusCreated)
	expect(servers[0], "go order 1", "once", http.StatusCreated)
	expect(servers[0], "go order 1", "another", http.StatusUnprocessableEntity)
	race(servers)
	expect(servers[1], "go order 1", "once", http.StatusCreated)
	values(ctx, pools)
	users(pools)
	next(ctx, pools)
}

// Attempts at both servers at once: one of them serves, and the others are told its answer or that it runs.
func race(servers []*httptest.Server) {
	var all sync.WaitGroup
	for number := 0; number < 4; number++ {
		all.Add(1)
		go func(server *httptest.Server) {
			defer all.Done()
			if status, text := post(server, "go order 2", "raced"); status != http.StatusCreated && status != http.StatusConflict {
				log.Fatal(status, text)
			}
		}(servers[number%2])
	}
	all.Wait()
}

type receipt struct{ Number int }

func values(ctx context.Context, pools []*pgxpool.Pool) {
	request := psp.Request{Key: "receipt", Payload: "7"}
	for _, pool := range pools {
		found, err := psp.RunRequest(ctx, pool, request, func(tx pgx.Tx) (receipt, error) { return receipt{7}, add(tx, "receipt") }, patient)
		check(err)
		if found.Number != 7 {
			log.Fatal(found)
		}
	}
	_, err := pools[0].Exec(ctx, "SELECT FROM psp.request_failed('no', '', '\"no money\"')")
	check(err)
	var failed *psp.RequestFailed
	_, err = psp.RunRequest(ctx, pools[0], psp.Request{Key: "no"}, func(pgx.Tx) (int, error) { return 0, errors.New("it was served") })
	if !errors.As(err, &failed) || string(failed.Result) != `"no money"` {
		log.Fatal(err)
	}
}

// A user who writes at one server and reads at the next one.
func users(pools []*pgxpool.Pool) {
	var cookie *http.Cookie
	for place, pool := range pools {
		place, pool := place, pool
		serve := psp.ReadYourWrites(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			found, err := psp.RunValue(r.Context(), pool, func(tx pgx.Tx) (found int, err error) {
				if place == 0 {
					return 1, add(tx, "seen")
				}
				err = tx.QueryRow(r.Context(), "SELECT count(*) FROM unit WHERE name = 'seen'").Scan(&found)
				return found, err
			}, patient)
			check(err)
			fmt.Fprint(w, found)
		}))
		request, answer := httptest.NewRequest(http.MethodPost, "/", nil), httptest.NewRecorder()
		if cookie != nil {
			request.AddCookie(cookie)
		}
		serve.ServeHTTP(answer, request)
		if answer.Body.String() != "1" || len(answer.Result().Cookies()) != 1 {
			log.Fatal(answer.Body, answer.Header())
		}
		cookie = answer.Result().Cookies()[0]
	}
}

// The first semi-primary is gone: the next one has what was committed there. With either driver.
func next(ctx context.Context, pools []*pgxpool.Pool) {
	dead, err := pgxpool.New(ctx, "postgresql://app@127.0.0.1:1/app")
	check(err)
	near := psp.NewPools(pools[0], pools[1])
	check(psp.Run(ctx, near, func(tx pgx.Tx) error { return add(tx, "near") }, patient))
	users, seen := psp.WithSeen(ctx, "")
	check(psp.Run(users, pools[0], func(tx pgx.Tx) error { return add(tx, "carried") }, patient))
	users, _ = psp.WithSeen(ctx, seen.Token())
	far := psp.NewPools(dead, pools[1])
	check(psp.Run(users, far, func(tx pgx.Tx) error {
		var found int
		err := tx.QueryRow(ctx, "SELECT count(*) FROM unit WHERE name IN ('near', 'carried')").Scan(&found)
		if err == nil && found != 2 {
			err = fmt.Errorf("%d are found", found)
		}
		return err
	}, patient))
	dbs := psp.NewDBs(open("app@127.0.0.1:1/app"), open(os.Args[2]))
	users, _ = psp.WithSeen(ctx, seen.Token())
	check(psp.RunSQL(users, dbs, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE counter SET value = value + (SELECT count(*) FROM unit WHERE name = 'carried') - 1")
		return err
	}, patient))
}

func open(url string) *sql.DB {
	db, err := sql.Open("pgx", "postgresql://"+url)
	check(err)
	return db
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
