// A service with the Idempotency-Key header at each of two semi-primaries. Arguments: the URLs' parts behind the driver.
package main

import (
	"context"
	"encoding/json"
	"errors"
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

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
