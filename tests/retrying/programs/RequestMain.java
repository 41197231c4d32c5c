import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import org.postgresql.ds.PGSimpleDataSource;
import psp.Psp;
import psp.Request;

/** Requests that are served once, through two semi-primaries. Arguments: the URLs' parts behind the driver. */
public final class RequestMain {
    private static PGSimpleDataSource source(String url) {
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + url.substring(url.indexOf('@') + 1));
        source.setUser(url.substring(0, url.indexOf('@')));
        return source;
    }

    private static Psp.Work<String> pay(String name) {
        return connection -> {
            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("UPDATE counter SET value = value + 1");
            }
            try (PreparedStatement insert = connection.prepareStatement("INSERT INTO unit (name) VALUES (?)")) {
                insert.setString(1, name);
                insert.executeUpdate();
            }
            return "{\"paid\": true}";
        };
    }

    private static void check(boolean holds, Object found) {
        if (!holds) throw new AssertionError(found);
    }

    public static void main(String[] arguments) throws Exception {
        Request request = new Request("java order", "7");
        for (String url : arguments) {
            String answer = request.run(source(url), pay("java"));
            check(answer.equals("{\"paid\": true}"), answer);
        }
        try {
            new Request("java order", "8").run(source(arguments[0]), pay("another payload"));
            throw new AssertionError("it was served");
        } catch (SQLException refused) {
            check("PS422".equals(refused.getSQLState()), refused);
        }
        try (Connection connection = source(arguments[0]).getConnection(); Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT FROM psp.request_failed('java no', '', '\"no money\"')").close();
        }
        try {
            new Request("java no", "").run(source(arguments[0]), pay("failed"));
            throw new AssertionError("it was served");
        } catch (Request.Failed failed) {
            check("\"no money\"".equals(failed.result()), failed.result());
        }
    }
}
