// SPDX-License-Identifier: PostgreSQL
package psp;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ThreadLocalRandom;
import javax.sql.DataSource;
import org.postgresql.util.PSQLException;

/** Units of work that are committed once, at a semi-primary in native mode or on a PostgreSQL without psp. */
public final class Psp {
    /** Statements on the connection, which do not commit. They may run several times. */
    @FunctionalInterface
    public interface Work<T> {
        T on(Connection connection) throws SQLException;
    }

    private static final String FIND_PSP = "SELECT pg_catalog.to_regprocedure('psp.transaction_id()') IS NOT NULL";
    private static final String FIND_ID =
            "SELECT CASE WHEN pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN psp.transaction_id()::text END";
    private static final Set<String> ROLLED_BACK = Set.of("40001", "40P01", "40000", "08006", "0A000", "53200", "54000");
    private static final Set<String> AGAIN = Set.of("40", "08", "53", "57");  // classes of SQLSTATEs
    private static final Options BETWEEN_QUESTIONS =
            new Options(1, Duration.ofMillis(100), Duration.ofMillis(1500), Duration.ZERO, Duration.ZERO);

    private Psp() {}

    public static <T> T run(DataSource source, Work<T> work) throws SQLException, InterruptedException {
        return run(source, work, Options.DEFAULTS);
    }

    /**
     * Commits what work does in one transaction, once; returns what it returns. OutcomeUnknown: psp has told nothing of the outcome in
     * time. On a PostgreSQL without psp, an error that leaves the outcome open is thrown.
     */
    public static <T> T run(DataSource source, Work<T> work, Options options) throws SQLException, InterruptedException {
        for (int failures = 1; ; failures++) {
            Attempt<T> tried = new Attempt<>();
            try {
                once(source, work, tried);
                return tried.result;
            } catch (SQLException error) {
                if (tried.isCommitted) return tried.result;  // what has failed is close
                if (tried.mayBeCommitted(error)) {
                    if (!tried.hasPsp) throw error;
                    if (tried.id != null && isCommitted(tried.id, outcome(source, tried.id, options))) return tried.result;
                }
                if (failures >= options.attempts() || !isWorthAnother(error)) throw error;
            }
            pause(options, failures);
        }
    }

    public static String outcome(DataSource source, UUID id) throws SQLException, InterruptedException {
        return outcome(source, id, Options.DEFAULTS);
    }

    /** Of what outcome says. OutcomeUnknown: nobody knows any more. */
    static boolean isCommitted(UUID id, String outcome) throws OutcomeUnknown {
        if (outcome.equals("forgotten")) throw OutcomeUnknown.forgotten(id);
        return outcome.equals("committed");
    }

    /** "committed", "aborted" or, of a very old transaction, "forgotten". OutcomeUnknown: nobody has answered in time. */
    public static String outcome(DataSource source, UUID id, Options options) throws SQLException, InterruptedException {
        long end = System.nanoTime() + options.timeout().toNanos();
        for (int failures = 1; ; failures++) {
            try (Connection connection = source.getConnection();
                    PreparedStatement question = connection.prepareStatement("SELECT psp.outcome(?)::text")) {
                question.setObject(1, id);
                try (ResultSet row = question.executeQuery()) {
                    row.next();
                    return row.getString(1);
                }
            } catch (SQLException error) {
                if (!isWorthAnother(error)) throw error;
                if (System.nanoTime() - end >= 0) throw new OutcomeUnknown(id, error);
            }
            pause(BETWEEN_QUESTIONS, failures);
        }
    }

    /** One transaction, from the moment at which only its COMMIT is left. */
    static final class Attempt<T> {
        T result;
        boolean hasPsp;
        boolean isCommitting;
        boolean isCommitted;
        UUID id;  // null: it has written nothing

        void beginCommit(Connection connection) throws SQLException {
            hasPsp = value(connection, FIND_PSP).equals("t");
            String found = hasPsp ? value(connection, FIND_ID) : null;
            id = found == null ? null : UUID.fromString(found);
            isCommitting = true;
        }

        boolean mayBeCommitted(SQLException error) {
            String state = state(error);
            return isCommitting && (state == null || !ROLLED_BACK.contains(state) && !state.startsWith("23"));
        }
    }

    private static <T> void once(DataSource source, Work<T> work, Attempt<T> tried) throws SQLException {
        try (Connection connection = source.getConnection()) {
            boolean before = connection.getAutoCommit();
            connection.setAutoCommit(false);
            try {
                tried.result = work.on(connection);
                tried.beginCommit(connection);
                connection.commit();
                tried.isCommitted = true;
            } finally {
                if (!tried.isCommitted) rollBack(connection);
                setAutoCommit(connection, before);
            }
        }
    }

    static void rollBack(Connection connection) {
        try {
            connection.rollback();
        } catch (SQLException lost) {
            closeQuietly(connection);
        }
    }

    static void closeQuietly(Connection connection) {
        try {
            connection.close();
        } catch (SQLException lost) {
            // the server rolls back by itself
        }
    }

    private static void setAutoCommit(Connection connection, boolean before) {
        try {
            if (!connection.isClosed()) connection.setAutoCommit(before);
        } catch (SQLException lost) {
            closeQuietly(connection);
        }
    }

    /** The first column of the first row, as text. */
    static String value(Connection connection, String query) throws SQLException {
        try (Statement statement = connection.createStatement(); ResultSet row = statement.executeQuery(query)) {
            row.next();
            return row.getString(1);
        }
    }

    /** The server's SQLSTATE, or null if the connection is lost, which the driver tells by states of class 08 of its own. */
    static String state(SQLException error) {
        String state = error.getSQLState();
        for (Throwable cause = error; cause != null; cause = cause.getCause()) {
            if (cause instanceof PSQLException own && own.getServerErrorMessage() != null) return own.getSQLState();
        }
        boolean isOfPsp = error.getMessage() != null && error.getMessage().startsWith("psp:");
        return state == null || state.startsWith("08") && !isOfPsp ? null : state;
    }

    static boolean isWorthAnother(SQLException error) {
        String state = state(error);
        return state == null ? error.getSQLState() != null : AGAIN.contains(state.substring(0, 2));
    }

    /** Before the next attempt: anything up to a bound that grows. */
    static void pause(Options options, int failures) throws InterruptedException {
        long bound = options.firstPause().toNanos();
        long longest = options.longestPause().toNanos();
        for (int i = 0; i < failures && bound < longest; i++) bound *= 2;
        Thread.sleep(Duration.ofNanos(ThreadLocalRandom.current().nextLong(Math.max(1, Math.min(bound, longest)))).toMillis());
    }
}
