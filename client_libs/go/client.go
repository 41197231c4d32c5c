// SPDX-License-Identifier: PostgreSQL

package psp

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Client has one session. Begin and Commit are the client's, so one program serves both modes, and a PostgreSQL without psp.
// One goroutine at a time uses it.
type Client struct {
	options    Options
	config     *pgx.ConnConfig
	connection *pgx.Conn
	isViews    bool
	isOpen     bool
	id         string // of the open transaction, in views mode
	socket     *dealer
	number     uint64
}

// Committed is a transaction that is committed. GlobalT, its number at the primary, is known in views mode only.
type Committed struct {
	ID      string
	GlobalT int64
}

const (
	findMode     = "SELECT pg_catalog.to_regprocedure('psp.client_endpoint()') IS NOT NULL"
	findEndpoint = "SELECT coalesce(psp.client_endpoint(), '')"
)

// Connect connects to a semi-primary's PostgreSQL, and asks it for the mode.
func Connect(ctx context.Context, dsn string, options ...Options) (*Client, error) {
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	c := &Client{options: first(options), config: config}
	if c.connection, err = pgx.ConnectConfig(ctx, config); err != nil {
		return nil, err
	}
	if err = c.connection.QueryRow(ctx, findMode).Scan(&c.isViews); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close rolls back what is open.
func (c *Client) Close() {
	_ = c.connection.Close(context.Background())
	c.closeSocket()
}

// Conn is where statements run.
func (c *Client) Conn() *pgx.Conn { return c.connection }

// IsViews tells the mode.
func (c *Client) IsViews() bool { return c.isViews }

// Begin begins a transaction, in a new session if the last one has ended. Its id is empty in native mode, where Commit gives one.
func (c *Client) Begin(ctx context.Context) (string, error) {
	if c.isOpen {
		return "", &Error{Code: "25001", Message: "psp: a transaction is open: commit or abort it first"}
	}
	if c.connection.IsClosed() {
		connection, err := pgx.ConnectConfig(ctx, c.config)
		if err != nil {
			return "", err
		}
		c.connection = connection
	}
	isolation := c.options.Isolation
	if isolation == "" {
		isolation = string(pgx.RepeatableRead)
	}
	if _, err := c.connection.Exec(ctx, "BEGIN ISOLATION LEVEL "+strings.ToUpper(isolation)); err != nil {
		return "", err
	}
	c.isOpen, c.id = true, ""
	if c.isViews {
		if err := c.connection.QueryRow(ctx, "SELECT psp.begin()::text").Scan(&c.id); err != nil {
			c.Abort()
			return "", err
		}
	}
	return c.id, nil
}

// Abort rolls back the open transaction, if there is one.
func (c *Client) Abort() {
	if c.isOpen {
		c.isOpen = false
		ctx, cancel := context.WithTimeout(context.Background(), c.interval())
		defer cancel()
		if _, err := c.connection.Exec(ctx, "ROLLBACK"); err != nil {
			_ = c.connection.Close(ctx)
		}
	}
}

// Commit commits the open transaction. An error tells that it is rolled back, by its SQLSTATE why; OutcomeUnknown that nobody
// knows.
func (c *Client) Commit(ctx context.Context) (Committed, error) {
	if !c.isOpen {
		return Committed{}, &Error{Code: "25P01", Message: "psp: no transaction is open"}
	}
	defer c.Abort() // after a commit that has come to an end, of nothing
	if c.isViews {
		if err := c.end(ctx); err != nil && !c.connection.IsClosed() {
			return Committed{}, err
		} // else the COMMIT may have reached PostgreSQL: the semi-primary knows
		return c.CommitAgain(ctx, c.id)
	}
	var tried attempt
	err := beginCommit(ctx, c.connection, &tried)
	if err == nil {
		err = c.end(ctx)
	}
	done := Committed{}
	if tried.id != nil {
		done.ID = *tried.id
	}
	if err == nil || !tried.mayBeCommitted(err) {
		return done, err
	}
	if !tried.hasPsp { // nobody can tell
		return done, &OutcomeUnknown{Cause: err}
	}
	if tried.id == nil { // it has written nothing
		return done, err
	}
	again, unknown := c.CommitAgain(ctx, done.ID)
	var aborted *Error
	if errors.As(unknown, &aborted) {
		aborted.Detail = err.Error()
	}
	return again, unknown
}

// CommitAgain asks again for a transaction whose outcome is unknown: in views mode to commit it, with the same answer at any time.
func (c *Client) CommitAgain(ctx context.Context, id string) (Committed, error) {
	if !c.isViews {
		outcome, err := c.Outcome(ctx, id)
		if err == nil && outcome == forgotten {
			err = isForgotten(id)
		} else if err == nil && outcome != committed {
			err = &Error{Code: "40000", Message: "psp: transaction " + id + " is aborted"}
		}
		return Committed{ID: id}, err
	}
	answer, err := c.ask(ctx, kindCommit, id)
	if err == nil && answer.status != statusCommitted {
		err = answer.error("40000")
	}
	return Committed{ID: id, GlobalT: answer.globalT}, err
}

// Outcome is the status of a transaction: in native mode "committed", "aborted" or, of a very old one, "forgotten"; in views mode also "running", "waiting"
// and "pending".
func (c *Client) Outcome(ctx context.Context, id string) (string, error) {
	if !c.isViews {
		return c.options.outcome(ctx, id, func(ctx context.Context, id string) (string, error) {
			connection, err := pgx.ConnectConfig(ctx, c.config)
			if err != nil {
				return "", err
			}
			defer connection.Close(context.Background())
			var outcome string
			err = connection.QueryRow(ctx, findOutcome, id).Scan(&outcome)
			return outcome, err
		})
	}
	answer, err := c.ask(ctx, kindOutcome, id)
	if err == nil && answer.status == statusFailed {
		err = answer.error("08P01")
	}
	return statusNames[answer.status], err
}

// Run begins, calls work, and commits; after what may succeed another time all of it again. The work may run several times.
func (c *Client) Run(ctx context.Context, work func(*pgx.Conn) error) (Committed, error) {
	if c.isOpen {
		return Committed{}, &Error{Code: "25001", Message: "psp: a transaction is open, and only the whole of it can be run again"}
	}
	defer c.Abort() // if the work panics
	for failures := 1; ; failures++ {
		done, err := c.once(ctx, work)
		var unknown *OutcomeUnknown
		if err == nil || errors.As(err, &unknown) || ctx.Err() != nil || failures >= c.options.attempts() {
			return done, err
		}
		tried := attempt{isLost: c.connection.IsClosed()}
		var connecting *pgconn.ConnectError
		if !tried.isWorthAnother(err) && !errors.As(err, &connecting) {
			return done, err
		}
		c.options.pause(ctx, failures)
	}
}

func (c *Client) once(ctx context.Context, work func(*pgx.Conn) error) (Committed, error) {
	if _, err := c.Begin(ctx); err != nil {
		return Committed{}, err
	}
	if err := work(c.connection); err != nil {
		c.Abort()
		return Committed{}, err
	}
	return c.Commit(ctx)
}

// PostgreSQL's COMMIT, which rolls back in silence after a statement that has failed.
func (c *Client) end(ctx context.Context) error {
	tag, err := c.connection.Exec(ctx, "COMMIT")
	if err == nil || c.connection.IsClosed() || c.connection.PgConn().TxStatus() == 'I' {
		c.isOpen = false
	}
	if err == nil && tag.String() == "ROLLBACK" {
		return &Error{Code: "25P02", Message: "psp: a statement of the transaction has failed: nothing is committed"}
	}
	return err
}

// Sends the request again until it is answered, each time the daemon may listen elsewhere.
func (c *Client) ask(ctx context.Context, kind byte, id string) (reply, error) {
	deadline := time.Now().Add(c.options.timeout())
	why := errors.New("the semi-primary does not answer")
	for ctx.Err() == nil && time.Now().Before(deadline) {
		c.number++
		message, err := request(c.number, kind, id)
		if err != nil {
			return reply{}, err
		}
		wasNew := c.socket == nil
		answer, err := c.exchange(ctx, message)
		if err == nil && !answer.isNoAnswer() {
			return answer, nil
		}
		if err == nil {
			err = answer.error("08007")
		} else {
			c.closeSocket()
		}
		why = err
		if wasNew { // else the socket was an old one that the daemon has closed: at once again
			c.options.pause(ctx, 3)
		}
	}
	if ctx.Err() != nil {
		why = ctx.Err()
	}
	return reply{}, &OutcomeUnknown{ID: id, Cause: why}
}

func (c *Client) exchange(ctx context.Context, message []byte) (reply, error) {
	if c.socket == nil {
		endpoint, err := c.endpoint(ctx)
		if err != nil {
			return reply{}, err
		}
		if c.socket, err = dial(endpoint, c.interval()); err != nil {
			c.socket = nil
			return reply{}, err
		}
	}
	stop := make(chan struct{})
	defer close(stop)
	go func(socket *dealer) { // a cancelled context ends the waiting
		select {
		case <-ctx.Done():
			_ = socket.connection.SetDeadline(time.Now())
		case <-stop:
		}
	}(c.socket)
	if err := c.socket.send(message, time.Now().Add(c.interval())); err != nil {
		return reply{}, err
	}
	for {
		data, err := c.socket.receive()
		if err != nil {
			return reply{}, err
		}
		if answer, err := readReply(data); err == nil && answer.requestID == c.number {
			return answer, nil
		}
	}
}

// From a session of its own: the client's may be in a transaction, or lost.
func (c *Client) endpoint(ctx context.Context) (string, error) {
	connection, err := pgx.ConnectConfig(ctx, c.config)
	if err != nil {
		return "", err
	}
	defer connection.Close(context.Background())
	var found string
	if err = connection.QueryRow(ctx, findEndpoint).Scan(&found); err != nil {
		return "", err
	}
	for _, everywhere := range []string{"tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"} {
		if strings.HasPrefix(found, everywhere) {
			return "tcp://" + hostOf(c.config.Host) + ":" + strings.TrimPrefix(found, everywhere), nil
		}
	}
	return found, nil
}

// A daemon that listens everywhere is at its PostgreSQL.
func hostOf(database string) string {
	if database == "" || strings.HasPrefix(database, "/") {
		return "127.0.0.1"
	}
	if strings.Contains(database, ":") {
		return "[" + database + "]"
	}
	return database
}

func (c *Client) interval() time.Duration { return positive(c.options.RetryInterval, 2*time.Second) }

func (c *Client) closeSocket() {
	if c.socket != nil {
		c.socket.close()
		c.socket = nil
	}
}
