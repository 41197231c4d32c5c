import java.sql.PreparedStatement;
import java.sql.Statement;
import org.postgresql.ds.PGSimpleDataSource;

/** JDBC: units of work. Arguments: the URL's part behind the driver, how many, how their names begin. */
public final class Main {
    public static void main(String[] arguments) throws Exception {
        String[] parts = arguments[0].split("@");
        PGSimpleDataSource source = new PGSimpleDataSource();
        source.setUrl("jdbc:postgresql://" + parts[1] + "?user=" + parts[0] + "&ApplicationName=retried");
        for (int i = 0; i < Integer.parseInt(arguments[1]); i++) {
            String name = arguments[2] + i;
            Retrying.run(source, connection -> {
                try (Statement statement = connection.createStatement()) {
                    statement.executeUpdate("UPDATE counter SET value = value + 1");
                }
                try (PreparedStatement statement = connection.prepareStatement("INSERT INTO unit (name) VALUES (?)")) {
                    statement.setString(1, name);
                    statement.executeUpdate();
                }
            });
        }
    }
}
