// SPDX-License-Identifier: PostgreSQL
package psp;

import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.sql.DataSource;

/**
 * One session, whose begin and commit are the client's: so one program serves views mode, native mode and a PostgreSQL without psp. One
 * thread at a time uses it. The data source makes sessions of the same semi-primary.
 */
public final class PspClient implements AutoCloseable {
    /** A committed transaction. globalT, its number at the primary, is known in views mode only; id is null if native mode has written nothing. */
    public record Committed(UUID id, long globalT) {}

    private static final String FIND_MODE = "SELECT pg_catalog.to_regprocedure('psp.client_endpoint()') IS NOT NULL";
    private static final String FIND_ENDPOINT = "SELECT coalesce(psp.client_endpoint(), '')";
    private static final Pattern EVERYWHERE = Pattern.compile("tcp://(?:\\*|0\\.0\\.0\\.0|\\[::\\])(:\\d+)");
    private static final Pattern HOST = Pattern.compile("//(\\[[^\\]]+\\]|[^:/,]+)");

    private final DataSource source;
    private final Options options;
    private final boolean isViews;
    private Connection connection;
    private boolean isOpen;
    private UUID id;  // of the open transaction, in views mode
    private Dealer socket;
    private long number;

    public PspClient(DataSource source) throws SQLException {
        this(source, Options.DEFAULTS);
    }

    public PspClient(DataSource source, Options options) throws SQLException {
        this.source = source;
        this.options = options;
        connection = source.getConnection();
        try {
            isViews = Psp.value(connection, FIND_MODE).equals("t");
        } catch (SQLException error) {
            Psp.closeQuietly(connection);
            throw error;
        }
    }

    /** Where statements run. */
    public Connection connection() {
        return connection;
    }

    public boolean isViews() {
        return isViews;
    }

    /** Begins a transaction, REPEATABLE READ, in a new session if the last one has ended. Null in native mode, where commit gives the id. */
    public UUID begin() throws SQLException {
        if (isOpen) throw new SQLException("psp: a transaction is open: commit or abort it first", "25001");
        if (connection.isClosed()) connection = source.getConnection();
        try {
            connection.setAutoCommit(false);
            connection.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
            id = isViews ? UUID.fromString(Psp.value(connection, "SELECT psp.begin()")) : null;
        } catch (SQLException error) {
            Psp.rollBack(connection);
            throw error;
        }
        isOpen = true;
        return id;
    }

    /** Rolls back the open transaction, if there is one. */
    public void abort() {
        if (isOpen) {
            isOpen = false;
            Psp.rollBack(connection);
        }
    }

    /** Commits the open transaction. An SQLException tells that it is rolled back, by its SQLSTATE why; OutcomeUnknown that nobody knows. */
    public Committed commit() throws SQLException, InterruptedException {
        if (!isOpen) throw new SQLException("psp: no transaction is open", "25P01");
        Psp.Attempt<Void> tried = new Psp.Attempt<>();
        try {
            if (!isViews) tried.beginCommit(connection);
            connection.commit();
            isOpen = false;
        } catch (SQLException error) {
            abort();
            if (!isViews) return afterError(tried, error);
            if (!connection.isClosed()) throw error;
            // Else the COMMIT may have reached PostgreSQL: the semi-primary knows.
        }
        return isViews ? commit(id) : new Committed(tried.id, 0);
    }

    private Committed afterError(Psp.Attempt<Void> tried, SQLException error) throws SQLException, InterruptedException {
        if (!tried.mayBeCommitted(error)) throw error;
        if (!tried.hasPsp) throw new OutcomeUnknown(null, error);
        if (tried.id == null) throw error;  // it has written nothing
        return commit(tried.id);
    }

    /** Asks again for a transaction whose outcome is unknown: in views mode to commit it, with the same answer at any time. */
    public Committed commit(UUID asked) throws SQLException, InterruptedException {
        if (!isViews) {
            if (Psp.isCommitted(asked, outcome(asked))) return new Committed(asked, 0);
            throw new SQLException("psp: transaction " + asked + " is aborted", "40000");
        }
        Messages.Reply reply = ask(Messages.COMMIT, asked);
        if (reply.status() != Messages.COMMITTED) throw reply.error("40000");
        return new Committed(asked, reply.globalT());
    }

    /** Its status: "committed", "aborted" or, of a very old one, "forgotten"; in views mode also "running", "waiting" and "pending". */
    public String outcome(UUID asked) throws SQLException, InterruptedException {
        if (!isViews) return Psp.outcome(source, asked, options);
        Messages.Reply reply = ask(Messages.OUTCOME, asked);
        if (reply.status() == Messages.FAILED) throw reply.error("08P01");
        return Messages.STATUS.get(reply.status());
    }

    /** Begins, calls work, commits; after what may succeed another time all of it again. The work may run several times. */
    public Committed run(Psp.Work<?> work) throws SQLException, InterruptedException {
        if (isOpen) throw new SQLException("psp: a transaction is open, and only the whole of it can be run again", "25001");
        for (int failures = 1; ; failures++) {
            try {
                begin();
                work.on(connection);
                return commit();
            } catch (OutcomeUnknown error) {
                throw error;
            } catch (SQLException error) {
                if (failures >= options.attempts() || !Psp.isWorthAnother(error)) throw error;
            } finally {
                abort();
            }
            Psp.pause(options, failures);
        }
    }

    /** Sends the request again until it is answered; after each failure the daemon's address is looked up again. */
    private Messages.Reply ask(int kind, UUID asked) throws SQLException, InterruptedException {
        long end = System.nanoTime() + options.timeout().toNanos();
        Exception why = new IOException("the semi-primary does not answer");
        while (System.nanoTime() - end < 0) {
            boolean wasNew = socket == null;
            try {
                Messages.Reply reply = exchange(Messages.request(++number, kind, asked));
                if (!reply.isNoAnswer()) return reply;
                why = reply.error("08007");
            } catch (IOException | SQLException error) {
                why = error;
                closeSocket();
            }
            // Else the socket was an old one that the daemon has closed: at once again.
            if (wasNew) Psp.pause(options, 3);
        }
        throw new OutcomeUnknown(asked, why);
    }

    private Messages.Reply exchange(byte[] message) throws IOException, SQLException {
        if (socket == null) socket = new Dealer(endpoint(), options.retryInterval());
        socket.send(message);
        long end = System.nanoTime() + options.retryInterval().toNanos();
        while (true) {
            Messages.Reply reply = Messages.reply(socket.receive(Duration.ofNanos(end - System.nanoTime())));
            if (reply != null && reply.requestId() == number) return reply;
        }
    }

    /** From a session of its own: the client's may be in a transaction, or lost. A daemon that listens everywhere is at its PostgreSQL. */
    private String endpoint() throws SQLException {
        try (Connection other = source.getConnection()) {
            String found = Psp.value(other, FIND_ENDPOINT);
            Matcher everywhere = EVERYWHERE.matcher(found);
            Matcher host = HOST.matcher(other.getMetaData().getURL());
            return everywhere.matches() && host.find() ? "tcp://" + host.group(1) + everywhere.group(1) : found;
        }
    }

    private void closeSocket() {
        if (socket == null) return;
        try {
            socket.close();
        } catch (IOException error) {
            // it is closed all the same
        }
        socket = null;
    }

    /** Rolls back what is open. */
    @Override
    public void close() {
        abort();
        Psp.closeQuietly(connection);
        closeSocket();
    }
}
