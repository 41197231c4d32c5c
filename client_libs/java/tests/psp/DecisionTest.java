// SPDX-License-Identifier: PostgreSQL
package psp;

import java.sql.SQLException;
import org.postgresql.util.PSQLException;
import org.postgresql.util.PSQLState;
import org.postgresql.util.ServerErrorMessage;

/** What an error says of a transaction whose COMMIT was sent. Ends with an error if one is wrong. */
public final class DecisionTest {
    private static SQLException server(String state) {
        return new PSQLException(new ServerErrorMessage("SERROR\0C" + state + "\0Mpsp: of a test\0"));
    }

    private static void check(SQLException error, boolean mayBeCommitted, boolean isWorthAnother) {
        Psp.Attempt<Void> tried = new Psp.Attempt<>();
        if (tried.mayBeCommitted(error)) throw new AssertionError("before COMMIT: " + error);
        tried.isCommitting = true;
        if (tried.mayBeCommitted(error) != mayBeCommitted || Psp.isWorthAnother(error) != isWorthAnother) throw new AssertionError(error);
    }

    private static void checkForgotten() {
        try {
            Psp.isCommitted(new java.util.UUID(0, 0), "forgotten");
        } catch (OutcomeUnknown unknown) {
            return;
        }
        throw new AssertionError("what nobody knows is not aborted");
    }

    public static void main(String[] arguments) {
        check(server("40001"), false, true);
        check(server("40P01"), false, true);
        check(server("08006"), false, true);
        check(server("08007"), true, true);
        check(server("57P01"), true, true);
        check(server("57014"), true, true);
        check(server("23505"), false, false);
        check(server("54000"), false, false);
        check(server("XX000"), true, false);
        // The driver says 08006 itself where it has lost the connection; pools wrap its errors.
        SQLException lost = new PSQLException("An I/O error occurred", PSQLState.CONNECTION_FAILURE);
        check(lost, true, true);
        check(new SQLException("of a pool", lost.getSQLState(), lost), true, true);
        check(new SQLException("of a pool", "40001", server("40001")), false, true);
        check(new SQLException("of the work"), true, false);
        checkForgotten();
    }
}
