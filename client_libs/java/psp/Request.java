// SPDX-License-Identifier: PostgreSQL
package psp;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Types;
import java.time.Duration;
import javax.sql.DataSource;

/**
 * What makes two attempts the same request, which is served once: psp.request, docs/once.md. key: chosen by the client that begins it, and sent with
 * each attempt. payload: what it asks for; the same key with another one is an error (PS422). ofRole: the role whose request it is, or null: the
 * connection's. longest: how long to wait for another attempt at the same semi-primary (55P03 afterwards), or null: until it has ended.
 */
public record Request(String key, String payload, String ofRole, Duration longest) {
    private static final String ASK = "SELECT state, failed, result::pg_catalog.text "
            + "FROM psp.request(?, ?, of_role => ?, wait => pg_catalog.make_interval(secs => ?))";
    private static final String DONE = "SELECT psp.request_done(?::pg_catalog.text::pg_catalog.jsonb)";

    public Request(String key, String payload) {
        this(key, payload, null, null);
    }

    /** The request has failed for good, by psp.request_failed. */
    public static final class Failed extends SQLException {
        private static final long serialVersionUID = 1L;
        private final String result;

        Failed(String result) {
            super("psp: the request has failed: " + result);
            this.result = result;
        }

        /** What is stored of that: JSON, or null. */
        public String result() {
            return result;
        }
    }

    public String run(DataSource source, Psp.Work<String> work) throws SQLException, InterruptedException {
        return run(source, work, Options.DEFAULTS);
    }

    /** Psp.run for work that returns JSON, which is stored with it: later attempts, at any semi-primary, get what was stored. Failed. */
    public String run(DataSource source, Psp.Work<String> work, Options options) throws SQLException, InterruptedException {
        return Psp.run(source, connection -> {
            Known known = ask(connection);
            return known != null ? known.result() : store(connection, work.on(connection));
        }, options);
    }

    private record Known(String result) {}

    /** Null: it is new. */
    private Known ask(Connection connection) throws SQLException {
        try (PreparedStatement question = connection.prepareStatement(ASK)) {
            question.setString(1, key);
            question.setString(2, payload);
            question.setString(3, ofRole);
            if (longest == null) question.setNull(4, Types.DOUBLE);
            else question.setDouble(4, longest.toNanos() / 1e9);
            try (ResultSet row = question.executeQuery()) {
                row.next();
                if (row.getString(1).equals("new")) return null;
                if (row.getBoolean(2)) throw new Failed(row.getString(3));
                return new Known(row.getString(3));
            }
        }
    }

    private static String store(Connection connection, String result) throws SQLException {
        try (PreparedStatement done = connection.prepareStatement(DONE)) {
            done.setString(1, result);
            done.executeQuery().close();
        }
        return result;
    }
}
