// SPDX-License-Identifier: PostgreSQL
package psp;

import java.sql.SQLException;
import java.util.UUID;

/**
 * Nobody has told in time whether the transaction is committed (SQLSTATE 08007). Whoever asks by its id later is told. Or the question came
 * so late that the primary has forgotten the transaction; then it stays so.
 */
public final class OutcomeUnknown extends SQLException {
    private static final long serialVersionUID = 1;
    private final UUID id;

    static OutcomeUnknown forgotten(UUID id) {
        return new OutcomeUnknown(id, new SQLException("it is forgotten"));
    }

    OutcomeUnknown(UUID id, Throwable cause) {
        super("psp: transaction " + id + " may be committed or not: " + cause.getMessage(), "08007", cause);
        this.id = id;
    }

    /** Null on a PostgreSQL without psp, where nobody can tell. */
    public UUID id() {
        return id;
    }
}
